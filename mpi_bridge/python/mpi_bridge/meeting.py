# SPDX-License-Identifier: Apache-2.0
"""How ranks meet that neither PMIx nor Slurm's PMI-2 knows: through torch's store.

torchrun, Accelerate, Ray and scripts that set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT give
each process its number and the place of a store. The ranks exchange their addresses and the secrets
of their connections there, once. Whoever can connect to the store can read them, as he can read all
else that torch puts there: see docs/security.md.
"""

from __future__ import annotations

import ctypes
import os
from datetime import timedelta
from typing import Any, Callable

from . import native
from .structures import EXCHANGE, MeetingStruct

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# The variables that batchai has set, as "NAME=value" entries separated by commas
# (spank/protocol.h).
_OF_THE_LAUNCHER = "BATCHAI_RANK_VARIABLES"
# torchrun sets this variable for its workers, which are not the ranks that PMIx knows. Unlike
# TORCHELASTIC_RUN_ID, it is never set by batchai.
_OF_TORCHRUN = "TORCHELASTIC_USE_AGENT_STORE"


def is_wired_up() -> bool:
    """Tell whether PMIx or Slurm's PMI-2 has started this process; the library looks closer."""
    variables = os.environ.keys()
    return "PMIX_NAMESPACE" in variables or {"PMI_FD", "SLURM_STEP_ID"} <= variables


def set_by_the_user() -> bool:
    """Tell whether the variables that torch reads are the user's or torchrun's, not batchai's."""
    if _OF_TORCHRUN in os.environ:
        return True
    of_the_launcher = os.environ.get(_OF_THE_LAUNCHER, "").split(",")
    return any(
        name in os.environ and f"{name}={os.environ[name]}" not in of_the_launcher
        for name in _VARIABLES
    )


def is_needed(size: int) -> bool:
    """Tell whether so many ranks must meet in the store."""
    return size > 1 and (_OF_TORCHRUN in os.environ or not is_wired_up())


def is_in_environment() -> bool:
    """Tell whether the environment names a store in which the ranks must meet."""
    if not all(os.environ.get(name) for name in _VARIABLES):
        return False
    return is_needed(int(os.environ["WORLD_SIZE"])) and set_by_the_user()


# Rank 0 has the store itself, and may be ready before the others have read what they need.
_kept: Any = None


def from_environment() -> tuple[Any, int, int]:
    """Return the store, the rank and the size that the environment names."""
    import torch.distributed as dist

    global _kept
    found = next(iter(dist.rendezvous("env://", timeout=timedelta(minutes=5))))
    _kept = found[0]
    return found


_meetings = 0  # of this process; the same number on all ranks

# Gives each rank's bytes to all ranks and returns them in the order of ranks; collective. It may
# take so many seconds.
Exchange = Callable[[bytes, float], "list[bytes]"]


def init_with(store: Any, rank: int, size: int) -> None:
    """Join the ranks that meet in the store of torch; the counterpart of the native mpib_init."""
    global _meetings
    _meetings += 1
    exchanges = 0

    def exchange(data: bytes, seconds: float) -> list[bytes]:
        nonlocal exchanges
        exchanges += 1
        prefix = f"mpi_bridge/{_meetings}/{exchanges}"
        keys = [f"{prefix}/{each}" for each in range(size)]
        store.set(keys[rank], data)
        store.wait(keys, timedelta(seconds=min(seconds, 24 * 3600)))
        return [store.get(key) for key in keys]

    init_through(exchange, rank, size)


def init_through(exchange: Exchange, rank: int, size: int) -> None:
    """Join the ranks that have such a means to tell each other something."""
    failure: Exception | None = None

    def call(
        _context: Any, data: int, size_of_data: int, seconds: float, give: Any, receiver: Any
    ) -> int:
        nonlocal failure
        try:
            for each, value in enumerate(exchange(ctypes.string_at(data, size_of_data), seconds)):
                give(receiver, each, value, len(value))
        except Exception as error:  # it must not go through the native code
            failure = error
            return 1
        return 0

    meeting = MeetingStruct(ctypes.sizeof(MeetingStruct), rank, size, None, EXCHANGE(call))
    try:
        native.call("mpib_init_with", ctypes.byref(meeting))
    except Exception as error:
        raise error from failure
