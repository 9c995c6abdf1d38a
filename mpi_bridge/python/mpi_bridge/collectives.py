# SPDX-License-Identifier: Apache-2.0
"""The collective operations, on anything that buffer_of() supports.

All ranks must make the same sequence of calls. Lengths are checked here before the native call, so
that a wrong argument raises an error on the rank that passed it, before any message is sent.
"""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import Any

from . import native
from .buffer import Buffer, buffer_of, writable_buffer_of
from .datatype import DataType, Op
from .errors import InvalidArgumentError
from .world import rank, size


def _reducible(buffer: Buffer) -> DataType:
    if buffer.datatype is None:
        names = ", ".join(datatype.name.lower() for datatype in DataType)
        raise InvalidArgumentError(f"this element type cannot be reduced; these can: {names}")
    return buffer.datatype


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidArgumentError(message)


def allreduce(send: Any, recv: Any | None = None, op: Op = Op.SUM) -> None:
    """Reduce element by element over all ranks into `recv` of every rank; None: in place."""
    if recv is None:
        target = writable_buffer_of(send)
        source = target
    else:
        source, target = buffer_of(send), writable_buffer_of(recv)
    datatype = _reducible(source)
    _require(
        (source.count, datatype) == (target.count, target.datatype),
        f"allreduce: send has {source.count} elements of {datatype.name}, recv has "
        f"{target.count} of {target.datatype.name if target.datatype is not None else 'another'}",
    )
    native.call("mpib_allreduce", source.address, target.address, source.count, datatype, int(op))


def broadcast(buffer: Any, root: int = 0) -> None:
    """Copy the root's buffer into every other rank's buffer."""
    # The root only sends, so its buffer may be read-only.
    memory = buffer_of(buffer) if rank() == root else writable_buffer_of(buffer)
    native.call("mpib_broadcast", memory.address, memory.nbytes, root)


def allgather(send: Any, recv: Any) -> None:
    """Collect equally long buffers of all ranks into `recv`, in the order of ranks."""
    source, target = buffer_of(send), writable_buffer_of(recv)
    _require(
        target.nbytes == source.nbytes * size(),
        f"allgather: recv has {target.nbytes} bytes, needs {size()} times {source.nbytes}",
    )
    native.call("mpib_allgather", source.address, target.address, source.nbytes)


def allgatherv(send: Any, recv: Any, recv_bytes: Sequence[int]) -> None:
    """Collect buffers of different lengths; recv_bytes[r] is rank r's, equal on all ranks."""
    source, target = buffer_of(send), writable_buffer_of(recv)
    lengths = list(recv_bytes)
    _require(len(lengths) == size(), f"allgatherv: needs one length for each of {size()} ranks")
    _require(
        source.nbytes == lengths[rank()],
        f"allgatherv: send has {source.nbytes} bytes, recv_bytes says {lengths[rank()]}",
    )
    _require(
        target.nbytes == sum(lengths),
        f"allgatherv: recv has {target.nbytes} bytes, needs {sum(lengths)}",
    )
    native.call(
        "mpib_allgatherv",
        source.address,
        source.nbytes,
        target.address,
        native.size_array(lengths),
        None,
    )


def reduce_scatter(send: Any, recv: Any, counts: Sequence[int], op: Op = Op.SUM) -> None:
    """Reduce `send`, and leave the part of counts[r] elements on rank r."""
    source, target = buffer_of(send), writable_buffer_of(recv)
    datatype = _reducible(source)
    parts = list(counts)
    _require(len(parts) == size(), f"reduce_scatter: needs one count for each of {size()} ranks")
    _require(
        source.count == sum(parts),
        f"reduce_scatter: send has {source.count} elements, counts add up to {sum(parts)}",
    )
    _require(
        target.count == parts[rank()] and target.datatype == datatype,
        f"reduce_scatter: recv must hold {parts[rank()]} elements of {datatype.name}",
    )
    native.call(
        "mpib_reduce_scatter",
        source.address,
        target.address,
        native.size_array(parts),
        datatype,
        int(op),
    )


def alltoallv(send: Any, send_bytes: Sequence[int], recv: Any, recv_bytes: Sequence[int]) -> None:
    """Send send_bytes[r] bytes to rank r and get recv_bytes[r] from it, packed in rank order."""
    source, target = buffer_of(send), writable_buffer_of(recv)
    outgoing, incoming = list(send_bytes), list(recv_bytes)
    _require(
        len(outgoing) == len(incoming) == size(),
        f"alltoallv: needs one length for each of {size()} ranks",
    )
    _require(
        source.nbytes == sum(outgoing) and target.nbytes == sum(incoming),
        f"alltoallv: send has {source.nbytes} bytes for {sum(outgoing)}, "
        f"recv has {target.nbytes} for {sum(incoming)}",
    )
    native.call(
        "mpib_alltoallv",
        source.address,
        native.size_array(outgoing),
        None,
        target.address,
        native.size_array(incoming),
        None,
    )


def alltoall(send: Any, recv: Any) -> None:
    """Exchange equal parts: part r of `send` goes to rank r."""
    source, target = buffer_of(send), writable_buffer_of(recv)
    _require(
        source.nbytes == target.nbytes and source.nbytes % size() == 0,
        f"alltoall: send ({source.nbytes} bytes) and recv ({target.nbytes}) must be equally long "
        f"and divide into {size()} parts",
    )
    native.call("mpib_alltoall", source.address, target.address, source.nbytes // size())


def barrier() -> None:
    """Return after every rank has entered it."""
    native.call("mpib_barrier")


def gather_integers(values: Sequence[int]) -> list[list[int]]:
    """Collect the same number of 64-bit integers from every rank; result[r] is rank r's."""
    mine = array.array("q", values)
    everyone = array.array("q", bytes(len(mine) * mine.itemsize * size()))
    allgather(mine, everyone)
    width = len(mine)
    return [list(everyone[r * width : (r + 1) * width]) for r in range(size())]
