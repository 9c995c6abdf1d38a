# SPDX-License-Identifier: Apache-2.0
"""Many tensors in one message: the layout of buckets, and allreduce and broadcast on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable

import torch

import mpi_bridge

from ..common import buckets, reduce_ops
from ..common.agreement import require_same
from ..common.reduce_ops import ReduceOp
from .arrays import dtype_name

_Layout = tuple[str, torch.Size, torch.dtype]


class FusedTensors:
    """Host buffers, and in them one view for each tensor, of its shape and its type on the wire.

    Creating one is collective: all ranks must describe the same tensors in the same order.
    """

    def __init__(self, what: str, layout: Sequence[_Layout]) -> None:
        items = [
            buckets.Item(name, dtype_name(dtype), shape.numel(), dtype.itemsize)
            for name, shape, dtype in layout
        ]
        require_same(what, buckets.describe(items))
        self.views: list[torch.Tensor] = [torch.empty(0)] * len(layout)
        self.buffers: list[torch.Tensor] = []
        for bucket in buckets.assign(items, buckets.threshold()):
            buffer = torch.zeros(bucket.count, dtype=layout[bucket.members[0]][2])
            self.buffers.append(buffer)
            for member, offset in zip(bucket.members, bucket.offsets):
                shape = layout[member][1]
                self.views[member] = buffer[offset : offset + shape.numel()].view(shape)

    def allreduce(self, op: ReduceOp) -> None:
        """Reduce every buffer in place."""
        for buffer in self.buffers:
            mpi_bridge.allreduce(buffer, op=reduce_ops.native(op))

    def broadcast(self, root_rank: int) -> None:
        """Overwrite every buffer with the root's."""
        for buffer in self.buffers:
            mpi_bridge.broadcast(buffer, root_rank)


class FusedAllreduce:
    """Reduces the same list of gradients again and again.

    A gradient that a rank has not computed counts as zero. One that no rank has computed stays
    absent: beside the gradients travels one flag for each, and a flag that is still zero after
    the reduction says so.
    """

    def __init__(
        self,
        gradients: Sequence[tuple[str, torch.Size, torch.dtype]],
        travels_as: Callable[[torch.dtype], torch.dtype],
        op: ReduceOp,
        predivide_factor: float = 1.0,
    ) -> None:
        layout = [(name, shape, travels_as(dtype)) for name, shape, dtype in gradients]
        flags = ("<present>", torch.Size([len(layout)]), layout[0][2])
        self._fused = FusedTensors("the gradients to be reduced", [*layout, flags])
        self._op = op
        self._predivide_factor = predivide_factor

    def __call__(self, gradients: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Collective: return the reduced gradients; they are valid until the next call."""
        *views, flags = self._fused.views
        for view, gradient in zip(views, gradients):
            if gradient is None:
                view.zero_()
            else:
                view.copy_(gradient)
        flags.copy_(torch.tensor([gradient is not None for gradient in gradients]))
        if self._predivide_factor != 1.0:
            self._scale(1.0 / self._predivide_factor)
        self._fused.allreduce(self._op)
        if self._predivide_factor != 1.0:
            self._scale(self._predivide_factor)
        return [view if present else None for view, present in zip(views, (flags != 0).tolist())]

    def _scale(self, factor: float) -> None:
        for buffer in self._fused.buffers:
            buffer.mul_(factor)
