# SPDX-License-Identifier: Apache-2.0
"""The collectives as differentiable torch functions.

In the backward pass every rank must reach the same collectives in the same order, as in forward.
"""

from __future__ import annotations

from typing import Any, Optional

import torch

from mpi_bridge import broadcast as broadcast_buffer
from mpi_bridge import rank, size

from ..common import operations
from ..common.reduce_ops import Average, ReduceOp, Sum
from ..common.unsupported import not_supported
from .arrays import TorchArrays

ARRAYS = TorchArrays()

_Gradients = tuple[Optional[torch.Tensor], ...]


def _require_linear(op: ReduceOp) -> None:
    if op not in (Average, Sum):
        raise not_supported(f"the gradient of an operation with op={op.name.title()}")


class Allreduce(torch.autograd.Function):
    """Its gradient is the allreduce of the gradient with the same operation."""

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any, tensor: torch.Tensor, op: ReduceOp, prescale: float, postscale: float
    ) -> torch.Tensor:
        ctx.op, ctx.prescale, ctx.postscale = op, prescale, postscale
        return operations.allreduce(ARRAYS, tensor, op, prescale, postscale).to(tensor.device)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> _Gradients:  # noqa: D102
        _require_linear(ctx.op)
        reduced = operations.allreduce(ARRAYS, gradient, ctx.op, ctx.prescale, ctx.postscale)
        return reduced.to(gradient.device), None, None, None


class Allgather(torch.autograd.Function):
    """Its gradient is this rank's rows of the averaged gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:  # noqa: D102
        result, rows = operations.allgather(ARRAYS, tensor)
        ctx.first, ctx.rows, ctx.shape = sum(rows[: rank()]), rows[rank()], tensor.shape
        return result.to(tensor.device)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> _Gradients:  # noqa: D102
        averaged = operations.allreduce(ARRAYS, gradient, Average).to(gradient.device)
        return (averaged.narrow(0, ctx.first, ctx.rows).reshape(ctx.shape),)


class Broadcast(torch.autograd.Function):
    """Its gradient is the averaged gradient at the root and zero elsewhere."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int) -> torch.Tensor:  # noqa: D102
        ctx.root_rank = root_rank
        result = ARRAYS.host(tensor).clone()
        broadcast_buffer(result, root_rank)
        return result.to(tensor.device)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> _Gradients:  # noqa: D102
        averaged = operations.allreduce(ARRAYS, gradient, Average).to(gradient.device)
        return (averaged if rank() == ctx.root_rank else torch.zeros_like(averaged)), None


class Alltoall(torch.autograd.Function):
    """Its gradient sends each row's gradient back to the rank that the row came from."""

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any, tensor: torch.Tensor, splits: list[int] | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        result, received = operations.alltoall(ARRAYS, tensor, splits)
        ctx.received, ctx.shape = received, tensor.shape
        counts = torch.tensor(received, dtype=torch.int32)
        ctx.mark_non_differentiable(counts)
        return result.to(tensor.device), counts

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _counts: Any) -> _Gradients:  # noqa: D102
        returned, _ = operations.alltoall(ARRAYS, gradient, ctx.received)
        return returned.to(gradient.device).reshape(ctx.shape), None


class Reducescatter(torch.autograd.Function):
    """Its gradient is the gathered gradient, with the scale of an average undone as in Horovod."""

    @staticmethod
    def forward(  # noqa: D102
        ctx: Any, tensor: torch.Tensor, op: ReduceOp, prescale: float, postscale: float
    ) -> torch.Tensor:
        ctx.op, ctx.prescale, ctx.postscale, ctx.shape = op, prescale, postscale, tensor.shape
        return operations.reducescatter(ARRAYS, tensor, op, prescale, postscale).to(tensor.device)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> _Gradients:  # noqa: D102
        _require_linear(ctx.op)
        scale = ctx.prescale * ctx.postscale * (size() if ctx.op is Sum else 1.0)
        gathered, _ = operations.allgather(ARRAYS, gradient)
        return (gathered.to(gradient.device) * scale).reshape(ctx.shape), None, None, None
