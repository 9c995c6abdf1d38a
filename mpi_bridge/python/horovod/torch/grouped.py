# SPDX-License-Identifier: Apache-2.0
"""The collectives on lists of tensors, each of which runs once all ranks have submitted it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..common import handles, reduce_ops
from ..common.handles import Pending, Together
from ..common.process_sets import ProcessSet, global_process_set, number_of
from ..common.reduce_ops import Adasum
from . import adasum, autograd
from . import tensors as single
from .compression import Compression, Compressor
from .mpi_ops import allgather, needs_gradient, reducescatter, reduction_of, rows_only
from .tensors import Place, Reduction


def _group(kind: str, name: str | None, process_set: ProcessSet, count: int) -> list[Place]:
    """Return the places of a group's members, which run together."""
    number = number_of(process_set)
    base = handles.next_name(f"grouped_{kind}", number) if name is None else name
    return [
        Place(f"{base}.{position}", process_set, f"{kind}.{base}", count)
        for position in range(count)
    ]


def _begin_group(
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    reduction: Reduction,
    name: str | None,
    process_set: ProcessSet,
) -> Pending:
    places = _group("allreduce", name, process_set, len(inputs))
    if reduction.op is Adasum and inputs:
        return adasum.begin(inputs, outputs, reduction, places[0], list)
    return Together(
        [
            single.allreduce(tensor, output, reduction, place)
            for tensor, output, place in zip(inputs, outputs, places)
        ]
    )


def _new_outputs(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [torch.empty_like(tensor, requires_grad=False) for tensor in inputs]


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start to reduce all tensors of a list; one handle for all."""
    reduction = reduction_of(op, average, prescale_factor, postscale_factor)
    inputs = list(tensors)
    return handles.register(
        _begin_group(inputs, _new_outputs(inputs), reduction, name, process_set)
    )


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Return each tensor reduced over all ranks, in the order of the list."""
    reduction = reduction_of(op, average, prescale_factor, postscale_factor)
    compressed = [compression.compress(tensor) for tensor in tensors]
    inputs = [tensor for tensor, _ in compressed]
    if needs_gradient(inputs):
        places = _group("allreduce", name, process_set, len(inputs))
        reduced = autograd.Allreduce.apply(reduction, places, *inputs)
    else:
        pending = _begin_group(inputs, _new_outputs(inputs), reduction, name, process_set)
        reduced = pending.finish()
    return [
        compression.decompress(tensor, context) for tensor, (_, context) in zip(reduced, compressed)
    ]


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start to reduce all tensors of a list in place; one handle for all."""
    reduction = reduction_of(op, average, prescale_factor, postscale_factor)
    inputs = list(tensors)
    return handles.register(_begin_group(inputs, inputs, reduction, name, process_set))


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Reduce all tensors of a list in place and return them."""
    reduction = reduction_of(op, average, prescale_factor, postscale_factor)
    inputs = list(tensors)
    return _begin_group(inputs, inputs, reduction, name, process_set).finish()


def _begin_allgathers(
    inputs: Sequence[torch.Tensor], name: str | None, process_set: ProcessSet
) -> Pending:
    places = _group("allgather", name, process_set, len(inputs))
    return Together([rows_only(single.allgather(*each)) for each in zip(inputs, places)])


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start to gather all tensors of a list; one handle for all."""
    return handles.register(_begin_allgathers(list(tensors), name, process_set))


def grouped_allgather(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Return each tensor joined with those of the other ranks, in the order of the list."""
    inputs = list(tensors)
    if not needs_gradient(inputs):
        return _begin_allgathers(inputs, name, process_set).finish()
    number = number_of(process_set)
    base = handles.next_name("grouped_allgather", number) if name is None else name
    return [
        allgather(tensor, f"{base}.{position}", process_set)
        for position, tensor in enumerate(inputs)
    ]


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    op: int | None = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Start to reduce and scatter all tensors of a list; one handle for all."""
    reduction = Reduction(reduce_ops.resolve(op), prescale_factor, postscale_factor)
    return handles.register(_begin_reducescatters(list(tensors), reduction, name, process_set))


def _begin_reducescatters(
    inputs: Sequence[torch.Tensor], reduction: Reduction, name: str | None, process_set: ProcessSet
) -> Pending:
    # A group that is submitted only in part would never run, so this is checked first.
    single.require_rows(inputs)
    places = _group("reducescatter", name, process_set, len(inputs))
    return Together(
        [single.reducescatter(tensor, reduction, place) for tensor, place in zip(inputs, places)]
    )


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """Return this rank's rows of each tensor's reduction, in the order of the list."""
    compressed = [compression.compress(tensor) for tensor in tensors]
    inputs = [tensor for tensor, _ in compressed]
    if needs_gradient(inputs):
        single.require_rows(inputs)
        number = number_of(process_set)
        base = handles.next_name("grouped_reducescatter", number) if name is None else name
        reduced = [
            reducescatter(
                tensor,
                f"{base}.{position}",
                op=op,
                process_set=process_set,
                prescale_factor=prescale_factor,
                postscale_factor=postscale_factor,
            )
            for position, tensor in enumerate(inputs)
        ]
    else:
        reduction = Reduction(reduce_ops.resolve(op), prescale_factor, postscale_factor)
        reduced = _begin_reducescatters(inputs, reduction, name, process_set).finish()
    return [
        compression.decompress(tensor, context) for tensor, (_, context) in zip(reduced, compressed)
    ]
