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
import secrets
import time
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
    place = f"mpi_bridge/{_meetings}"
    exchanges = 0
    agreed = ""

    def exchange(data: bytes, seconds: float) -> list[bytes]:
        nonlocal exchanges, agreed
        exchanges += 1
        agreed = agreed or _agree(store, rank, size, place, seconds)
        prefix = f"{place}/{agreed}/{exchanges}"
        keys = [f"{prefix}/{each}" for each in range(size)]
        store.set(keys[rank], data)
        store.wait(keys, timedelta(seconds=min(seconds, 24 * 3600)))
        return [store.get(key) for key in keys]

    init_through(exchange, rank, size)


def _agree(store: Any, rank: int, size: int, place: str, seconds: float) -> str:
    """Return a name that the ranks of this attempt agree upon, and no earlier one.

    torchrun keeps its store when it starts the ranks again, with all that the ranks before have
    written. So each rank says a word of its own, and rank 0 repeats all of them until each rank has
    found its word among them.
    """
    patience = _Patience(seconds)
    words = [f"{place}/word/{each}" for each in range(size)]
    own = secrets.token_hex(8)
    store.set(words[rank], own)
    name, heard = "", []
    while True:
        if rank == 0:
            store.wait(words, patience.left())
            before, heard = heard, [store.get(word).decode() for word in words]
            if heard != before:
                name = secrets.token_hex(8)
                store.set(f"{place}/said", " ".join([name, *heard]))
            found = [f"{place}/{name}/found/{each}" for each in range(1, size)]
            if not found or _has(store, found):
                store.set(f"{place}/{name}/agreed", "yes")
                return name
        else:
            store.wait([f"{place}/said"], patience.left())
            name, *heard = store.get(f"{place}/said").decode().split()
            if heard[rank : rank + 1] == [own]:
                store.set(f"{place}/{name}/found/{rank}", "yes")
                if _has(store, [f"{place}/{name}/agreed"]):
                    return name
        patience.pause()


def _has(store: Any, keys: list[str]) -> bool:
    """Tell whether the store has all these keys."""
    if hasattr(store, "check"):  # since torch 2.3
        return store.check(keys)
    try:
        store.wait(keys, timedelta(milliseconds=10))
    except RuntimeError:
        return False
    return True


class _Patience:
    """How long to wait for the other ranks, with longer and longer pauses between two looks."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + min(seconds, 24 * 3600)
        self._pause = 0.001

    def left(self) -> timedelta:
        return timedelta(seconds=max(self._end - time.monotonic(), 0.001))

    def pause(self) -> None:
        if time.monotonic() > self._end:
            raise TimeoutError("not all ranks have come to torch's store")
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, 0.5)


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
