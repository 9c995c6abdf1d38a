# SPDX-License-Identifier: Apache-2.0
"""Named, asynchronous operations: the functions of mpi_bridge_engine.h.

Operations are matched among the ranks by name, not by the order of calls, so any thread may submit
in any order. The engine plans operations that are submitted again under the same name in each step,
and then runs them without negotiation. Every call releases the interpreter lock, and a wait in the
main thread checks for signals twice a second.

Buffers are anything that buffer_of() supports. They are kept alive until the handle is released,
and those in CUDA memory until the device has finished with them. An operation on CUDA memory
follows a CUDA stream: it begins after what the stream held when the operation was submitted, and
what is enqueued there after wait() finds the result. No host waits for the device. `stream` is the
number of that cudaStream_t, 0 for the legacy default stream. By default it is the stream that is
current in torch, or the one that an array names in its `__cuda_array_interface__`.
"""

from __future__ import annotations

import ctypes
from typing import Any

from . import native, repeated, world
from .datatype import Op as Op
from .handle import Handle as Handle
from .handle import Result as Result
from .operation import Prepared as Prepared
from .operation import prepare as prepare
from .structures import WORLD as WORLD
from .structures import CountersStruct
from .structures import Kind as Kind

_joins = (-1, 0)  # the session of world.init(), and how often the ranks have joined in it


def joins() -> int:
    """Return how often the ranks have joined since init(); it is the same on all of them."""
    session, count = _joins
    return count if session == world.session() else 0


def session_and_joins() -> tuple[int, int]:
    """Return what changes with each shutdown() and with each join().

    Until then a rank that has joined, or failed, may have missed what the others agreed upon or
    counted.
    """
    return world.session(), joins()


def submit(kind: Kind | int, send: Any, recv: Any = None, **options: Any) -> Handle:
    """Hand an operation to the engine and return at once; prepare() has the options."""
    return repeated.submit(kind, send, recv, options)


def call(kind: Kind | int, send: Any, recv: Any, **options: Any) -> None:
    """Submit, wait and release in one native call: the fast way for small vectors.

    `recv` must be given; prepare() has the options.
    """
    repeated.call(kind, send, recv, {**options, "waited_for": True})


def barrier(process_set: int = WORLD) -> None:
    """Return after every member of the process set has entered it."""
    prepare(Kind.BARRIER, None, process_set=process_set, waited_for=True).call()


def join() -> int:
    """Say that this rank has no more data, and wait for all others; return who came last.

    Until then this rank contributes zeros to the allreduces of the others; any other operation that
    they submit fails there at once.
    """
    last = ctypes.c_int(-1)
    native.call("mpib_join", ctypes.byref(last))
    global _joins
    _joins = (world.session(), joins() + 1)
    return last.value


def set_device(device: int) -> None:
    """Say on which CUDA device this process has its tensors, -1 for host memory.

    It is needed only if this rank takes part in operations on CUDA memory before it has had a
    tensor there, because it has joined or its arrays have had no elements.
    """
    native.call("mpib_set_device", device)


def device() -> int | None:
    """Return the CUDA device of this process's operations, -1 for host memory, None if unknown."""
    found = native.functions().mpib_device()
    return None if found < -1 else found


def cuda_installed() -> bool:
    """Tell whether the library of the CUDA driver can be loaded; CUDA is not initialised."""
    return native.functions().mpib_cuda_installed() == 1


def nccl_version() -> int:
    """Return the version code of the NCCL in this process, 0 if there is none or no CUDA driver.

    Import the framework first: NCCL comes with it, and none is loaded here in its place.
    """
    return native.functions().mpib_nccl_version()


def timeline_start(path: str) -> None:
    """Write a timeline (Chrome trace format) of this rank to PATH.RANK.json from now on."""
    native.call("mpib_timeline_start", str(path).encode())


def timeline_stop() -> None:
    """Complete the timeline's file; nothing happens if none is written."""
    native.call("mpib_timeline_stop")


def counters() -> dict[str, Any]:
    """Return what this rank has done since init().

    "operations", "failures", "bytes", "collectives", "bus_bytes" and "transfer_nanoseconds" are
    dictionaries by kind ("allreduce", ...); the others are numbers.
    """
    found = CountersStruct(struct_bytes=ctypes.sizeof(CountersStruct))
    native.call("mpib_read_counters", ctypes.byref(found))
    result: dict[str, Any] = {}
    for name, _ in CountersStruct._fields_[1:]:
        value = getattr(found, name)
        if isinstance(value, int):
            result[name] = value
        else:
            result[name] = {kind.name.lower(): value[kind] for kind in Kind}
    return result
