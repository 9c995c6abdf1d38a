# SPDX-License-Identifier: Apache-2.0
"""Process sets that only their members know; the other ranks need not take part.

The members agree on the set's id by messages: each tells the lowest member which ids it uses, and
that member chooses one that is free everywhere.
"""

from __future__ import annotations

import ctypes
import hashlib
import struct
import threading
import time
from collections.abc import Sequence

from . import messages, native, process_sets, world
from .errors import CollectiveTimeoutError, InvalidArgumentError

FIRST = 256  # MPIB_FIRST_PRIVATE_SET
COUNT = 256

_CHANNEL = "mpi_bridge.private_sets"
_NONE_IS_FREE = 0

# One agreement at a time, so that an id is not promised twice. The members of several sets must
# therefore make them in the same order, as torch requires too.
_lock = threading.Lock()
_latest = FIRST + COUNT - 1


def open_set(ranks: Sequence[int], seconds: float = 0.0) -> int:
    """Collective over these ranks of the job only: make a set of them and return its id.

    `seconds` > 0 limits the wait for the other members.
    """
    global _latest
    members = sorted(ranks)
    with _lock:
        chosen = _agree(members, _used_ids(), seconds)
        if chosen == _NONE_IS_FREE:
            raise InvalidArgumentError(
                f"the ranks {members} have no free process set in common: at most {COUNT} can "
                "exist at a time on a rank; destroy groups that are not needed"
            )
        array = (ctypes.c_int * len(members))(*members)
        native.call("mpib_process_set_open", array, len(members), chosen)
        _latest = chosen
    return chosen


def close_set(process_set: int) -> None:
    """Collective over the members, but it does not wait for them: end a set."""
    native.call("mpib_process_set_close", process_set)


def _used_ids() -> int:
    """Return a number whose bit n says that the set FIRST + n is in use."""
    return sum(1 << (number - FIRST) for number in process_sets.ids() if number >= FIRST)


def _agree(members: list[int], used: int, seconds: float) -> int:
    own, leader = world.rank(), members[0]
    digest = hashlib.sha256(repr(members).encode()).digest()
    tag = int.from_bytes(digest[:7], "little")
    deadline = time.monotonic() + seconds if seconds > 0 else None
    if own != leader:
        answer = bytearray(4)
        _exchange(leader, used.to_bytes(COUNT // 8, "little"), None, tag, deadline)
        _exchange(leader, None, answer, tag, deadline)
        return struct.unpack("<i", answer)[0]
    for member in members[1:]:
        theirs = bytearray(COUNT // 8)
        _exchange(member, None, theirs, tag, deadline)
        used |= int.from_bytes(theirs, "little")
    chosen = _next_free(used)
    for member in members[1:]:
        _exchange(member, struct.pack("<i", chosen), None, tag, deadline)
    return chosen


def _next_free(used: int) -> int:
    """Return the first id after the latest one, so that none is soon used again."""
    for step in range(1, COUNT + 1):
        place = (_latest - FIRST + step) % COUNT
        if not used >> place & 1:
            return FIRST + place
    return _NONE_IS_FREE


def _exchange(
    peer: int, out: bytes | None, into: bytearray | None, tag: int, deadline: float | None
) -> None:
    if out is not None:
        message = messages.send(out, peer, _CHANNEL, tag)
    else:
        message = messages.receive(into, peer, _CHANNEL, tag)
    try:
        message.wait(0 if deadline is None else max(deadline - time.monotonic(), 0.001))
    except CollectiveTimeoutError:
        if out is not None:
            message.leave_behind()
        raise CollectiveTimeoutError(
            f"rank {peer} did not come to make the process set in time; all members have to"
        ) from None
    message.release()
