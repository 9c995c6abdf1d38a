# SPDX-License-Identifier: Apache-2.0
"""Process sets that only their members know; the other ranks need not take part.

The members agree on the set's id by messages (agreement.py).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence

from . import native, world
from .agreement import COUNT, NONE_IS_FREE, Agreements, place_of
from .errors import InvalidArgumentError

FIRST = 256  # MPIB_FIRST_PRIVATE_SET

# One agreement at a time, so that an id is not promised twice. The members of several sets must
# therefore make them in the same order, as torch requires too.
_lock = threading.Lock()
_agreements: Agreements | None = None


def open_set(ranks: Sequence[int], seconds: float = 0.0) -> int:
    """Collective over these ranks of the job only: make a set of them and return its id.

    `seconds` > 0 limits the wait for the other members. If it ends with CollectiveTimeoutError on a
    rank, that rank may try again.
    """
    global _agreements
    members = sorted(ranks)
    with _lock:
        if _agreements is None or _agreements.session != world.session():
            _agreements = Agreements()
        serial = _agreements.reach(members, _used_places(), seconds)
        if serial == NONE_IS_FREE:
            raise InvalidArgumentError(
                f"the ranks {members} have no free process set in common: at most {COUNT} can "
                "exist at a time on a rank; destroy groups that are not needed"
            )
        chosen = FIRST + place_of(serial)
        array = (ctypes.c_int * len(members))(*members)
        native.call("mpib_process_set_open", array, len(members), chosen)
    return chosen


def close_set(process_set: int) -> None:
    """Collective over the members, but it does not wait for them: end a set."""
    native.call("mpib_process_set_close", process_set)


def _used_places() -> int:
    """Return a number whose bit n says that the set FIRST + n is in use.

    A set that is closed here counts as long as another member has not closed it.
    """
    is_free = native.functions().mpib_process_set_is_free
    return sum(1 << place for place in range(COUNT) if not is_free(FIRST + place))
