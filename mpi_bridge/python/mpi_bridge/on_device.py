# SPDX-License-Identifier: Apache-2.0
"""Operations that a device has not finished yet, although their handles have been released.

Their buffers must stay until the device has finished with them, unless their owner gives memory
back in the order of the stream, as torch does. A process must not leave the step before that
either, because other ranks need its part.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from typing import Callable

from . import native, world

LEAVING_SECONDS = 60.0
"""How long a process that leaves the step waits for its device."""

_LOOK_SECONDS = 0.002


class _Order:
    """The operations of one process set, which finish in the order of their marks."""

    def __init__(self) -> None:
        self.latest = 0
        self.kept: deque[tuple[int, object]] = deque()


_lock = threading.RLock()  # the collector of garbage may come to it again
_orders: dict[tuple[int, int], _Order] = {}  # by the session of world.init() and the process set
_others: list[Callable[[], dict[int, int]]] = []


def _reached(mark: int) -> int:
    return native.functions().mpib_device_reached(mark)


def released(process_set: int, mark: int, buffers: tuple[object, ...]) -> None:
    """Keep these until the device has finished the operation with this mark."""
    session = world.session()
    with _lock:
        order = _orders.setdefault((session, process_set), _Order())
        order.latest = max(order.latest, mark)
        if buffers:
            order.kept.append((mark, buffers))
    world.before_leaving("device", finish)
    sweep()


def also_finish(latest_marks: Callable[[], dict[int, int]]) -> None:
    """Let finish() wait for marks of native code, too: the latest by process set."""
    _others.append(latest_marks)


def sweep() -> None:
    """Let go of what the devices have finished with."""
    done: list[object] = []  # freed without the lock, because their owners' code runs then
    session = world.session()
    with _lock:
        for key, order in list(_orders.items()):
            if key[0] != session:
                # Only the next init() tells that the library has let go of them.
                while order.kept:
                    world.keep_until_init(order.kept.popleft()[1], key[0])
                del _orders[key]
                continue
            while order.kept:
                mark, buffers = order.kept[0]
                reached = _reached(mark)
                if reached == 0:
                    break
                order.kept.popleft()
                if reached < 0:
                    world.keep_until_init(buffers, session)
                else:
                    done.append(buffers)


def kept_buffers() -> int:
    """Return for how many released operations buffers are kept."""
    with _lock:
        return sum(len(order.kept) for order in _orders.values())


def finish() -> None:
    """Wait until the devices have finished; say so if one does not in time."""
    session, deadline = world.session(), time.monotonic() + LEAVING_SECONDS
    with _lock:
        latest = [(key[1], order.latest) for key, order in _orders.items() if key[0] == session]
    for of_others in _others:
        latest += of_others().items()
    for process_set, mark in latest:
        # After a failure (-1) there is nothing to wait for, and it has been raised elsewhere.
        while (reached := _reached(mark)) == 0 and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        if reached == 0:
            print(
                f"mpi_bridge: rank {world.rank()} leaves the step although its device has not "
                f"finished the operations of process set {process_set} within "
                f"{LEAVING_SECONDS:g} s; they are aborted on all ranks",
                file=sys.stderr,
                flush=True,
            )
    sweep()
