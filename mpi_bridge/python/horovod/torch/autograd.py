# SPDX-License-Identifier: Apache-2.0
"""The collectives as differentiable torch functions.

In the backward pass every rank must make the same collectives as in the forward pass. They have the
name of the forward operation with ".gradient" appended.
"""

from __future__ import annotations

from typing import Any, Optional

import torch

from ..common.handles import Together
from ..common.reduce_ops import Adasum, Average, ReduceOp, Sum
from ..common.unsupported import not_supported
from . import adasum, tensors
from .tensors import Place, Reduction

_Gradients = tuple[Optional[torch.Tensor], ...]


def _require_linear(op: ReduceOp) -> None:
    if op not in (Average, Sum):
        raise not_supported(f"the gradient of an operation with op={op.name.title()}")


def _backward(place: Place) -> Place:
    name = None if place.name is None else f"{place.name}.gradient"
    group = None if place.group is None else f"{place.group}.gradient"
    return place._replace(name=name, group=group, waited_for=group is None)


def _averaged(gradient: torch.Tensor, place: Place) -> torch.Tensor:
    output = torch.empty_like(gradient, memory_format=torch.contiguous_format)
    return tensors.reduced(gradient, output, Reduction(Average), place)


def _allreduced(inputs: Any, reduction: Reduction, places: list[Place]) -> list[torch.Tensor]:
    outputs = [torch.empty_like(tensor) for tensor in inputs]
    if reduction.op is Adasum:
        return adasum.begin(inputs, outputs, reduction, places[0], list).finish()
    pending = [
        tensors.allreduce(tensor, output, reduction, place)
        for tensor, output, place in zip(inputs, outputs, places)
    ]
    return Together(pending).finish()


class Allreduce(torch.autograd.Function):
    """Allreduce of one tensor or a group. Its gradient is the same allreduce of the gradients."""

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any, reduction: Reduction, places: list[Place], *inputs: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        ctx.reduction, ctx.places = reduction, places
        return tuple(_allreduced(inputs, reduction, places))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> _Gradients:  # noqa: D102
        _require_linear(ctx.reduction.op)
        places = [_backward(place) for place in ctx.places]
        return None, None, *_allreduced(gradients, ctx.reduction, places)


class Allgather(torch.autograd.Function):
    """Its gradient is this rank's rows of the averaged gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, place: Place) -> torch.Tensor:  # noqa: D102
        result, rows = tensors.allgather(tensor, place).finish()
        own = place.process_set.rank()
        ctx.place, ctx.first, ctx.rows = place, sum(rows[:own]), rows[own]
        ctx.shape = tensor.shape
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> _Gradients:  # noqa: D102
        averaged = _averaged(gradient, _backward(ctx.place))
        return averaged.narrow(0, ctx.first, ctx.rows).reshape(ctx.shape), None


class Broadcast(torch.autograd.Function):
    """Its gradient is the averaged gradient at the root and zero elsewhere."""

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any, tensor: torch.Tensor, root_rank: int, is_root: bool, place: Place
    ) -> torch.Tensor:
        ctx.place, ctx.is_root = place, is_root
        return tensors.broadcast(tensor, torch.empty_like(tensor), root_rank, place).finish()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> _Gradients:  # noqa: D102
        averaged = _averaged(gradient, _backward(ctx.place))
        return (averaged if ctx.is_root else torch.zeros_like(averaged)), None, None, None


class Alltoall(torch.autograd.Function):
    """Its gradient sends each row's gradient back to the rank that the row came from."""

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any, tensor: torch.Tensor, splits: list[int] | None, place: Place
    ) -> tuple[torch.Tensor, torch.Tensor]:
        result, received = tensors.alltoall(tensor, splits, place).finish()
        ctx.place, ctx.received, ctx.shape = place, received, tensor.shape
        counts = torch.tensor(received, dtype=torch.int32)
        ctx.mark_non_differentiable(counts)
        return result, counts

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _counts: Any) -> _Gradients:  # noqa: D102
        returned, _ = tensors.alltoall(gradient, ctx.received, _backward(ctx.place)).finish()
        return returned.reshape(ctx.shape), None, None


class Reducescatter(torch.autograd.Function):
    """Its gradient is the gathered gradient; like Horovod, it undoes the scale of an average."""

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any, tensor: torch.Tensor, reduction: Reduction, place: Place
    ) -> torch.Tensor:
        ctx.reduction, ctx.place, ctx.shape = reduction, place, tensor.shape
        return tensors.reducescatter(tensor, reduction, place).finish()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> _Gradients:  # noqa: D102
        reduction, place = ctx.reduction, ctx.place
        _require_linear(reduction.op)
        members = place.process_set.size() if reduction.op is Sum else 1.0
        scale = reduction.prescale * reduction.postscale * members
        gathered, _ = tensors.allgather(gradient, _backward(place)).finish()
        return (gathered * scale).reshape(ctx.shape), None, None
