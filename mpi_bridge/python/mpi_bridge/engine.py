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

import contextlib
import ctypes
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Callable

from . import cuda_arrays, native, on_device, world
from .buffer import Buffer, buffer_of, writable_buffer_of
from .datatype import DataType, Op
from .errors import (
    CollectiveTimeoutError,
    InvalidArgumentError,
    MismatchError,
    MpiBridgeError,
)
from .in_flight import InFlight
from .structures import CountersStruct, Kind, OperationStruct, ResultStruct

WORLD = 0
"""The process set of all ranks."""

_WAITED_FOR = 1
_DEVICE = 2
_NO_BYTES = ctypes.c_size_t(-1).value  # MPIB_NO_BYTES: recv can hold nothing


_REDUCING = (Kind.ALLREDUCE, Kind.REDUCE_SCATTER, Kind.REDUCE)
# Their first dimension is divided or joined, so there must be one.
_BY_ROWS = (Kind.ALLGATHER, Kind.REDUCE_SCATTER, Kind.ALLTOALL)


@dataclass(frozen=True)
class Result:
    """The result of an operation.

    `address` and `nbytes` are the receive buffer, or memory of the engine if none was given. That
    memory is gone when the handle is released, so copy it out first.
    """

    address: int
    nbytes: int
    rows: int  # length of the first dimension
    received_rows: tuple[int, ...]  # allgather, alltoall: rows from each member of the set
    last_joined: int  # join: the rank that joined last; otherwise -1
    on_device: bool = False  # if so, the data is ready in the order of `stream`
    stream: int = 0  # the CUDA stream that the operation followed

    def _require_host_memory(self) -> None:
        if self.on_device:
            raise InvalidArgumentError("the result lies on an accelerator; enqueue a copy there")

    def copy_to(self, target: Any) -> None:
        """Copy the data into a buffer of the same length."""
        self._require_host_memory()
        buffer = writable_buffer_of(target)
        if buffer.nbytes != self.nbytes:
            raise InvalidArgumentError(
                f"the result has {self.nbytes} bytes, the target {buffer.nbytes}"
            )
        if self.nbytes and buffer.address != self.address:
            ctypes.memmove(buffer.address, self.address, self.nbytes)

    def tobytes(self) -> bytes:
        """Return a copy of the data."""
        self._require_host_memory()
        return ctypes.string_at(self.address, self.nbytes) if self.nbytes else b""

    def cuda_bytes(self) -> cuda_arrays.CudaBytes:
        """Return the data in CUDA memory, for a copy that a framework enqueues on `stream`."""
        if not self.on_device:
            raise InvalidArgumentError("the result is in host memory")
        return cuda_arrays.CudaBytes(self.address, self.nbytes, self.stream)


class Handle(InFlight):
    """An operation in flight. Its name is in use, and its buffers are kept, until release().

    A handle that is no longer referred to is released, which waits for the operation.
    """

    __slots__ = ("_is_ordered", "_may_run_on", "_process_set", "stream")

    _prefix = "mpib"
    _what = "operation"

    def __init__(
        self,
        number: int,
        kept: tuple[Buffer, ...],
        stream: int | None = None,
        process_set: int = WORLD,
    ) -> None:
        super().__init__(number, kept)
        self.stream = stream
        """The CUDA stream that the operation follows; None in host memory."""
        self._is_ordered = stream is None  # whether that stream waits for the operation
        self._process_set = process_set
        self._may_run_on = False  # whether the device may go on with it although it has failed

    def poll(self) -> bool:
        """Tell whether the operation is done, successfully or not."""
        state = native.functions().mpib_poll(self._live_number())
        if state < 0:
            raise InvalidArgumentError("the engine does not know this operation")
        return state == 1

    def wait(self, seconds: float = 0.0) -> Result:
        """Wait until the operation is done; raise its error if it failed.

        `seconds` > 0 limits the wait: then CollectiveTimeoutError is raised, and the operation goes
        on.
        """
        self._wait(seconds)
        return self._result()

    def _result(self) -> Result:
        found = ResultStruct(struct_bytes=ctypes.sizeof(ResultStruct))
        native.call("mpib_get_result", self._live_number(), ctypes.byref(found))
        return Result(
            address=found.data or 0,
            nbytes=found.bytes,
            rows=found.rows,
            received_rows=tuple(found.received_rows[: found.members])
            if found.received_rows
            else (),
            last_joined=found.last_joined,
            on_device=self.stream is not None,
            stream=self.stream or cuda_arrays.LEGACY,
        )

    def finish(self) -> None:
        """Wait, and release also if that fails; for operations whose result is in `recv`."""
        try:
            self._wait(0)
        finally:
            self.release()

    def _wait(self, seconds: float) -> None:
        try:
            super()._wait(seconds)
        except (InvalidArgumentError, MismatchError, CollectiveTimeoutError):
            # Nothing was enqueued, or the operation goes on.
            raise
        except MpiBridgeError:
            self._may_run_on = True
            raise
        self._is_ordered = True

    def release(self) -> None:
        """Release the name and the buffers; wait first if the operation is not done."""
        if not self._is_ordered and self._number:
            # Without it, the device could still use buffers that are given back to an allocator.
            with contextlib.suppress(MpiBridgeError):
                self._wait(0)
        self._keep_until_finished()
        super().release()

    def _keep_until_finished(self) -> None:
        """Before the release: the device may use the buffers for longer than the handle lives."""
        if self.stream is None or not self._number or self._session != world.session():
            return
        mark = native.functions().mpib_device_mark(self._number)
        if mark:
            buffers = tuple(each for each in self._kept if not each.in_stream_order)
            on_device.released(self._process_set, mark, buffers)
        elif self._may_run_on:
            world.keep_until_init(self._kept, self._session)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_finalizing():
            return
        number = getattr(self, "_number", 0)
        if number and getattr(self, "stream", None) is not None:
            if not self._is_ordered and self._session == world.session():
                self._may_run_on = native.functions().mpib_wait(number, 0.0) != 0
            self._keep_until_finished()
        super().__del__()


def _numbers(values: Sequence[int] | None) -> Any:
    return None if values is None else (ctypes.c_int64 * len(values))(*values)


def _shape_of(source: Any, buffer: Buffer) -> tuple[int, ...]:
    shape = getattr(source, "shape", buffer.shape)
    # A shape of another type, such as TensorFlow's, is ignored.
    if isinstance(shape, tuple) and math.prod(shape) == buffer.count:
        return tuple(shape)
    return (buffer.count,)


def _layout(
    kind: Kind, source: Any, buffer: Buffer, shape: Sequence[int] | None
) -> tuple[tuple[int, ...], DataType]:
    """Return the shape and the element type to submit; opaque elements travel as bytes."""
    lengths = _shape_of(source, buffer) if shape is None else tuple(shape)
    if not lengths and kind in _BY_ROWS:
        lengths = (1,)
    if buffer.datatype is not None:
        return lengths, buffer.datatype
    if kind in _REDUCING:
        names = ", ".join(datatype.name.lower() for datatype in DataType)
        raise InvalidArgumentError(f"this element type cannot be reduced; these can: {names}")
    return (*lengths, buffer.itemsize), DataType.UINT8


def _require_capacity(kind: Kind, send: Buffer, recv: Buffer, is_same_length: bool) -> None:
    if is_same_length and send.nbytes != recv.nbytes:
        raise InvalidArgumentError(
            f"{kind.name.lower()}: send has {send.nbytes} bytes, recv {recv.nbytes}"
        )
    if kind in _REDUCING and send.datatype != recv.datatype:
        raise InvalidArgumentError(f"{kind.name.lower()}: send and recv differ in type")


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


class Prepared:
    """An operation that is submitted again and again on the same buffers."""

    __slots__ = ("_kept", "_operation")

    def __init__(self, operation: OperationStruct, kept: tuple[Buffer, ...]) -> None:
        self._operation = operation
        self._kept = kept

    @property
    def on_device(self) -> bool:
        """Whether the buffers are CUDA memory."""
        return bool(self._operation.flags & _DEVICE)

    def submit(self, stream: int | None = None) -> Handle:
        """Submit the operation and return at once.

        On CUDA memory it follows `stream`, or the one that was given before. Only one thread at a
        time may submit it.
        """
        followed = None
        if self.on_device:
            on_device.sweep()
            if stream is not None:
                self._operation.stream = cuda_arrays.engine_stream(stream)
            followed = self._operation.stream or cuda_arrays.LEGACY
        number = ctypes.c_int64()
        native.call("mpib_submit", ctypes.byref(self._operation), ctypes.byref(number))
        return Handle(number.value, self._kept, followed, self._operation.process_set)

    def call(self) -> None:
        """Submit, wait and release in one native call; signals are handled when it returns.

        On CUDA memory it is several calls, because the device still uses the buffers afterwards.
        """
        if self.on_device:
            self.submit().finish()
            return
        native.call("mpib_call", ctypes.byref(self._operation))


def _set_send(
    operation: OperationStruct,
    kind: Kind,
    send: Any,
    shape: Sequence[int] | None,
    stream: int | None,
) -> Buffer:
    source = buffer_of(send, allow_device=True, stream=stream)
    lengths, datatype = _layout(kind, send, source, shape)
    operation.send = source.address or None
    operation.shape, operation.dimensions = _numbers(lengths), len(lengths)
    operation.datatype = datatype
    if source.on_device:
        operation.flags |= _DEVICE
        # Memory without elements says nothing about its device.
        operation.place = 0 if source.device is None else source.device + 1
        operation.stream = cuda_arrays.engine_stream(source.stream if stream is None else stream)
    elif stream is not None:
        raise InvalidArgumentError(
            f"{kind.name.lower()}: a CUDA stream was given, but the buffer is in host memory"
        )
    return source


def _require_same_place(kind: Kind, send: Buffer, recv: Buffer) -> None:
    if send.on_device == recv.on_device:
        return
    places = {True: "CUDA memory", False: "host memory"}
    raise InvalidArgumentError(
        f"{kind.name.lower()}: send is in {places[send.on_device]}, recv in "
        f"{places[recv.on_device]}; both must be in the same"
    )


def _set_splits(operation: OperationStruct, splits: Sequence[int]) -> None:
    members = native.functions().mpib_process_set_size(operation.process_set)
    if len(splits) != members:
        raise InvalidArgumentError(f"{len(splits)} splits for a process set of {members} ranks")
    operation.splits = _numbers(splits)


def prepare(
    kind: Kind | int,
    send: Any,
    recv: Any = None,
    *,
    name: str | None = None,
    op: Op = Op.SUM,
    root: int = 0,
    prescale: float = 1.0,
    postscale: float = 1.0,
    splits: Sequence[int] | None = None,
    process_set: int = WORLD,
    group: str | None = None,
    group_size: int = 0,
    waited_for: bool = False,
    shape: Sequence[int] | None = None,
    stream: int | None = None,
) -> Prepared:
    """Describe an operation.

    `recv` may be `send` (allreduce, broadcast, reduce: in place). An allgather or an alltoall whose
    result is longer than `recv` on any rank raises MismatchError on all of them. Without `recv`,
    allgather, alltoall and reduce_scatter put the result into memory of the engine; only the Result
    tells its length. If `name` is None, the name is "<kind>.noname.<n>", or
    "<kind>.noname.<joins>.<n>" once the ranks have joined. `root` is a rank of the job, also in a
    process set. `splits` are the rows for each member (alltoall). Operations of the same `group`
    run together once `group_size` of them are submitted on all ranks. `waited_for` says that the
    caller will wait at once. `shape` replaces the shape of `send`.
    """
    kind = Kind(kind)
    operation = OperationStruct(struct_bytes=ctypes.sizeof(OperationStruct), kind=kind)
    operation.name = name.encode() if name is not None else None
    operation.process_set = process_set
    operation.root = root
    operation.op = op
    operation.flags = _WAITED_FOR if waited_for else 0
    if prescale == 0 or postscale == 0:
        raise InvalidArgumentError("a scale factor of 0 would make every result 0")
    operation.prescale, operation.postscale = prescale, postscale
    if group is not None:
        operation.group, operation.group_size = group.encode(), group_size
    kept: list[Buffer] = []
    if send is not None:
        kept.append(_set_send(operation, kind, send, shape, stream))
    if recv is not None:
        # Its owner's work, too, must be done before the operation writes to it.
        order = operation.stream or cuda_arrays.LEGACY
        target = writable_buffer_of(recv, allow_device=True, stream=order if kept else None)
        if kept:
            _require_same_place(kind, kept[0], target)
            _require_capacity(kind, kept[0], target, kind in (Kind.ALLREDUCE, Kind.BROADCAST))
        operation.recv = target.address or None
        operation.recv_bytes = target.nbytes or _NO_BYTES
        kept.append(target)
    if splits is not None:
        _set_splits(operation, splits)
    return Prepared(operation, tuple(kept))


def submit(kind: Kind | int, send: Any, recv: Any = None, **options: Any) -> Handle:
    """Hand an operation to the engine and return at once; prepare() has the options."""
    return prepare(kind, send, recv, **options).submit()


def call(kind: Kind | int, send: Any, recv: Any, **options: Any) -> None:
    """Submit, wait and release in one native call: the fast way for small vectors.

    `recv` must be given; prepare() has the options.
    """
    prepare(kind, send, recv, waited_for=True, **options).call()


def barrier(process_set: int = WORLD) -> None:
    """Return after every member of the process set has entered it."""
    handle = submit(Kind.BARRIER, None, process_set=process_set, waited_for=True)
    handle.wait()
    handle.release()


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
