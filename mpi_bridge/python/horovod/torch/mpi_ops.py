# SPDX-License-Identifier: Apache-2.0
"""The collectives on torch tensors, as Horovod names them.

Each comes in up to four forms: it returns a new tensor, or (name_) works in place; it waits, or
(name_async) returns a handle for poll() and synchronize(). The forms that wait and return a new
tensor are differentiable. Operations are matched by `name`, and those without a name by the order
of calls. `process_set` limits an operation to some ranks; even then, `root_rank` is a rank of the
job. CUDA tensors are used where they are: see tensors and placement.

Like Horovod's module of this name, it also has what horovod.torch has about ranks, process sets and
groups, because scripts import that from here.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, Callable

import torch

from mpi_bridge import InvalidArgumentError, engine

from ..common import handles, reduce_ops
from ..common.basics import *  # noqa: F403
from ..common.basics import rank
from ..common.exceptions import HorovodInternalError as HorovodInternalError
from ..common.handles import Pending, Submitted
from ..common.handles import poll as poll
from ..common.handles import synchronize as synchronize
from ..common.process_sets import ProcessSet, global_process_set, number_of
from ..common.process_sets import add_process_set as add_process_set
from ..common.process_sets import remove_process_set as remove_process_set
from ..common.reduce_ops import Adasum, Average, ReduceOp, Sum
from ..common.reduce_ops import Max as Max
from ..common.reduce_ops import Min as Min
from ..common.reduce_ops import Product as Product
from . import adasum, autograd, sparse
from . import tensors as single
from .compression import Compression, Compressor
from .placement import expect_device
from .placement import nccl_built as nccl_built
from .tensors import Place, Reduction


def needs_gradient(inputs: Iterable[torch.Tensor]) -> bool:
    """Tell whether autograd has to record an operation on these tensors."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)


def reduction_of(
    op: int | None, average: bool | None, prescale: float, postscale: float
) -> Reduction:
    """Return what the arguments of an allreduce mean."""
    chosen = reduce_ops.resolve(op, average, allow_adasum=True)
    return Reduction(chosen, prescale, postscale)


def _begin_allreduce(
    tensor: torch.Tensor, output: torch.Tensor, reduction: Reduction, place: Place
) -> Pending:
    if reduction.op is Adasum:
        return adasum.begin([tensor], [output], reduction, place, lambda outputs: outputs[0])
    return single.allreduce(tensor, output, reduction, place)


def _allreduced(
    tensor: torch.Tensor, output: torch.Tensor, reduction: Reduction, place: Place
) -> torch.Tensor:
    if reduction.op is Adasum:
        return _begin_allreduce(tensor, output, reduction, place).finish()
    return single.reduced(tensor, output, reduction, place)


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start to reduce the tensor over all ranks; the default operation is Average."""
    reduction = reduction_of(op, average, prescale_factor, postscale_factor)
    output = torch.empty_like(tensor, requires_grad=False)
    return handles.register(_begin_allreduce(tensor, output, reduction, Place(name, process_set)))


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Return the tensor reduced over all ranks; the default operation is Average."""
    if tensor.is_sparse:
        return sparse.begin(tensor, _sparse_op(op, average), Place(name, process_set)).finish()
    reduction = reduction_of(op, average, prescale_factor, postscale_factor)
    place = Place(name, process_set, waited_for=True)
    travelling, context = compression.compress(tensor)
    if needs_gradient([travelling]):
        (reduced,) = autograd.Allreduce.apply(reduction, [place], travelling)
    else:
        output = torch.empty_like(travelling, requires_grad=False)
        reduced = _allreduced(travelling, output, reduction, place)
    return compression.decompress(reduced, context)


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start to reduce the tensor in place."""
    reduction = reduction_of(op, average, prescale_factor, postscale_factor)
    return handles.register(_begin_allreduce(tensor, tensor, reduction, Place(name, process_set)))


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Reduce the tensor in place and return it."""
    reduction = reduction_of(op, average, prescale_factor, postscale_factor)
    place = Place(name, process_set, waited_for=True)
    return _allreduced(tensor, tensor, reduction, place)


def _sparse_op(op: int | None, average: bool | None = None) -> ReduceOp:
    chosen = reduce_ops.resolve(op, average)
    if chosen not in (Average, Sum):
        raise ValueError(f"a sparse tensor is reduced with Average or Sum, not {chosen.name}")
    return chosen


def sparse_allreduce_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: int | None = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[], torch.Tensor]:
    """Start to reduce a sparse tensor; return a function that waits for the result."""
    return sparse.begin(tensor, _sparse_op(op), Place(name, process_set)).finish


def sparse_allreduce(
    tensor: torch.Tensor,
    name: str | None = None,
    op: int | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Return a sparse tensor reduced over all ranks."""
    return sparse_allreduce_async(tensor, name, op, process_set)()


def rows_only(pending: Submitted) -> Pending:
    """Drop the numbers of rows from a result and keep the tensor."""
    return handles.Mapped(pending, lambda result: result[0])


def allgather_async(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start to join all ranks' tensors along axis 0, whose length may differ between ranks."""
    return handles.register(rows_only(single.allgather(tensor, Place(name, process_set))))


def allgather(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Return all ranks' tensors joined along axis 0, whose length may differ between ranks."""
    place = Place(name, process_set, waited_for=True)
    if needs_gradient([tensor]):
        return autograd.Allgather.apply(tensor, place)
    return single.allgather(tensor, place).finish()[0]


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start to fetch the root's tensor; the others pass one of the same shape and type."""
    output = torch.empty_like(tensor, requires_grad=False)
    return handles.register(single.broadcast(tensor, output, root_rank, Place(name, process_set)))


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Return the root's tensor; the others pass one of the same shape and type."""
    place = Place(name, process_set, waited_for=True)
    if needs_gradient([tensor]):
        return autograd.Broadcast.apply(tensor, root_rank, rank() == root_rank, place)
    output = torch.empty_like(tensor, requires_grad=False)
    return single.received(tensor, output, root_rank, place)


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start to overwrite the tensor with the root's."""
    return handles.register(single.broadcast(tensor, tensor, root_rank, Place(name, process_set)))


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Overwrite the tensor with the root's and return it."""
    place = Place(name, process_set, waited_for=True)
    return single.received(tensor, tensor, root_rank, place)


_INTEGERS = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)


def _splits(splits: torch.Tensor | Sequence[int] | None) -> list[int] | None:
    """Return the splits as a list; None asks for equal parts, and so do empty ones in Horovod."""
    if splits is None:
        return None
    if isinstance(splits, torch.Tensor):
        if splits.dim() != 1:
            raise InvalidArgumentError(f"alltoall: splits must have one axis, not {splits.dim()}")
        if splits.dtype not in _INTEGERS:
            raise InvalidArgumentError(f"alltoall: splits must be integers, not {splits.dtype}")
        return splits.tolist() or None
    try:
        return [operator.index(rows) for rows in splits] or None
    except TypeError as error:
        raise InvalidArgumentError(
            f"alltoall: splits must be a sequence of integers, not {splits!r:.80}"
        ) from error


def _sent_rows(tensor: torch.Tensor, splits: list[int] | None) -> torch.Tensor:
    """Return the rows that the splits send to a rank: the first ones, which may not be all."""
    if splits is None or tensor.dim() == 0 or min(splits) < 0:
        return tensor
    return tensor[: sum(splits)] if sum(splits) < tensor.shape[0] else tensor


def _like_splits(
    received: torch.Tensor, splits: torch.Tensor | Sequence[int] | None
) -> torch.Tensor:
    """Return the received splits on the device of those that were sent."""
    if not isinstance(splits, torch.Tensor):
        return received
    # From pageable memory, so the driver reads it before it returns, but waits for no stream.
    return received.to(splits.device, non_blocking=True)


def alltoall_async(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start to send splits[i] rows to the i-th rank; rows beyond their sum are not sent.

    synchronize() returns the rows received and how many came from each rank, also without `splits`.
    """
    parts = _splits(splits)
    pending = single.alltoall(_sent_rows(tensor, parts), parts, Place(name, process_set))

    def result(received: tuple[torch.Tensor, Sequence[int]]) -> Any:
        rows, counts = received
        return rows, _like_splits(torch.tensor(counts, dtype=torch.int32), splits)

    return handles.register(handles.Mapped(pending, result))


def alltoall(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Send splits[i] rows to the i-th rank and return the rows received.

    With `splits` also return how many rows came from each rank, on the device of `splits`. Rows
    beyond the sum of the splits are not sent, and their gradient is zero.
    """
    place = Place(name, process_set, waited_for=True)
    parts = _splits(splits)
    result, received = autograd.Alltoall.apply(_sent_rows(tensor, parts), parts, place)
    return result if splits is None else (result, _like_splits(received, splits))


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: int | None = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Start to reduce and scatter; synchronize() returns this rank's rows."""
    reduction = Reduction(reduce_ops.resolve(op), prescale_factor, postscale_factor)
    return handles.register(single.reducescatter(tensor, reduction, Place(name, process_set)))


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Reduce, and return this rank's rows of the result; low ranks get the remainder."""
    reduction = Reduction(reduce_ops.resolve(op), prescale_factor, postscale_factor)
    place = Place(name, process_set, waited_for=True)
    travelling, context = compression.compress(tensor)
    if needs_gradient([travelling]):
        reduced = autograd.Reducescatter.apply(travelling, reduction, place)
    else:
        reduced = single.reducescatter(travelling, reduction, place).finish()
    return compression.decompress(reduced, context)


def join(device: int = -1) -> int:
    """Say that this rank has no more data; wait for all others and return who came last.

    Until then this rank contributes zeros to the allreduces of the others. `device` is the CUDA
    device for them if this rank has had no CUDA tensor yet; -1 is the current one.
    """
    expect_device(device)
    return engine.join()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Return after every rank of the process set has entered it."""
    engine.barrier(number_of(process_set))


def __getattr__(name: str) -> Any:
    if name.startswith("grouped_"):
        from . import grouped  # which imports this module

        return getattr(grouped, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
