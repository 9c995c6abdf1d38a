# SPDX-License-Identifier: Apache-2.0
"""How operations are described to the engine."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

from . import cuda_arrays, native, on_device
from .buffer import Buffer, buffer_of, writable_buffer_of
from .datatype import DataType, Op
from .errors import InvalidArgumentError
from .handle import Handle
from .structures import WORLD, Kind, OperationStruct

_WAITED_FOR = 1
_DEVICE = 2
_NO_BYTES = ctypes.c_size_t(-1).value  # MPIB_NO_BYTES: recv can hold nothing


_REDUCING = (Kind.ALLREDUCE, Kind.REDUCE_SCATTER, Kind.REDUCE)
# Their first dimension is divided or joined, so there must be one.
_BY_ROWS = (Kind.ALLGATHER, Kind.REDUCE_SCATTER, Kind.ALLTOALL)


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

    def without_buffers(self) -> OperationStruct:
        """Return what was described, for a caller that keeps the buffers itself."""
        return self._operation

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
