# SPDX-License-Identifier: Apache-2.0
"""The collectives on torch tensors.

`name` is accepted and not used: operations are matched by the order of calls, which must be the
same on all ranks. Tensors on an accelerator travel through host memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import mpi_bridge

from ..common import reduce_ops
from ..common.process_sets import global_process_set, require_global
from . import autograd
from .compression import Compression, Compressor


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> torch.Tensor:
    """Return the tensor reduced over all ranks; the default operation is Average."""
    require_global(process_set)
    chosen = reduce_ops.resolve(op, average)
    compressed, context = compression.compress(tensor)
    reduced = autograd.Allreduce.apply(compressed, chosen, prescale_factor, postscale_factor)
    return compression.decompress(reduced, context)


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> torch.Tensor:
    """Reduce the tensor in place and return it."""
    with torch.no_grad():
        reduced = allreduce(
            tensor.detach(),
            average,
            name,
            op=op,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
            process_set=process_set,
        )
        return tensor.copy_(reduced)


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = global_process_set,
) -> list[torch.Tensor]:
    """Return each tensor reduced over all ranks, in the order of the list."""
    return [
        allreduce(
            tensor,
            average,
            name,
            compression,
            op,
            prescale_factor,
            postscale_factor,
            process_set,
        )
        for tensor in tensors
    ]


def allgather(
    tensor: torch.Tensor, name: str | None = None, process_set: Any = global_process_set
) -> torch.Tensor:
    """Return all ranks' tensors joined along axis 0, whose length may differ between ranks."""
    require_global(process_set)
    return autograd.Allgather.apply(tensor)


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: Any = global_process_set,
) -> torch.Tensor:
    """Return the root's tensor; the others pass one of the same shape and type."""
    require_global(process_set)
    return autograd.Broadcast.apply(tensor, root_rank)


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: Any = global_process_set,
) -> torch.Tensor:
    """Overwrite the tensor with the root's and return it."""
    with torch.no_grad():
        return tensor.copy_(broadcast(tensor.detach(), root_rank, name, process_set))


def alltoall(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: Any = global_process_set,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Send splits[r] rows to rank r and return the rows received.

    With `splits` also return how many rows came from each rank.
    """
    require_global(process_set)
    if isinstance(splits, torch.Tensor):
        splits = splits.tolist()
    result, received = autograd.Alltoall.apply(tensor, splits)
    return result if splits is None else (result, received)


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    process_set: Any = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Reduce, and return this rank's rows of the result; low ranks get the remainder."""
    require_global(process_set)
    chosen = reduce_ops.resolve(op)
    compressed, context = compression.compress(tensor)
    reduced = autograd.Reducescatter.apply(compressed, chosen, prescale_factor, postscale_factor)
    return compression.decompress(reduced, context)


def barrier(process_set: Any = global_process_set) -> None:
    """Return after every rank has entered it."""
    require_global(process_set)
    mpi_bridge.barrier()


__all__ = [
    "allgather",
    "allreduce",
    "allreduce_",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "grouped_allreduce",
    "reducescatter",
]
