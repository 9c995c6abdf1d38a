# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks, on any device.

The forward pass makes one allgather of each rank's count, means and sums of squared deviations,
which are combined without the cancellation that sums of squares would suffer. The backward pass
makes one allreduce of two sums.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from ..common.process_sets import ProcessSet, global_process_set, has_other_ranks
from ..common.reduce_ops import Sum
from . import tensors
from .tensors import Place, Reduction


class SyncBatchNorm(_BatchNorm):
    """Like torch.nn.BatchNorm1d to 3d, with the statistics of the batch taken over all ranks."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self._process_set = process_set

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"SyncBatchNorm needs at least 2 axes, not {input.dim()}")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalise; collective in training, local in evaluation."""
        self._check_input_dim(input)
        alone = not has_other_ranks(self._process_set)
        uses_batch = self.training or not self.track_running_stats
        if alone or not uses_batch:
            return super().forward(input)
        place = Place(None, self._process_set, waited_for=True)
        output, mean, variance, count = _Normalise.apply(
            input, self.weight, self.bias, self.eps, place
        )
        if self.training and self.track_running_stats:
            self._follow(mean, variance, count)
        return output

    def _follow(self, mean: torch.Tensor, variance: torch.Tensor, count: torch.Tensor) -> None:
        """Update the running statistics with those of this batch."""
        self.num_batches_tracked.add_(1)
        factor = self.momentum
        if factor is None:
            factor = 1.0 / float(self.num_batches_tracked)
        unbiased = variance * (count / (count - 1).clamp(min=1))
        with torch.no_grad():
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), factor)


def _by_channel(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return values.view(1, -1, *[1] * (like.dim() - 2))


def _statistics(wide: torch.Tensor, axes: list[int]) -> torch.Tensor:
    """Return this rank's count, means and sums of squared deviations, in one row."""
    channels = wide.shape[1]
    count = wide.numel() // max(channels, 1)
    row = torch.zeros(2 * channels + 1, dtype=wide.dtype, device=wide.device)
    if count:
        variance, mean = torch.var_mean(wide, dim=axes, correction=0)
        row[0] = count
        row[1 : channels + 1] = mean
        row[channels + 1 :] = variance * count
    return row.view(1, -1)


class _Normalise(torch.autograd.Function):
    """Returns the normalised input, and mean, variance and count of the whole batch."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        eps: float,
        place: Place,
    ) -> tuple[torch.Tensor, ...]:
        wide = x if x.dtype in (torch.float32, torch.float64) else x.float()
        axes = [0, *range(2, x.dim())]
        channels = x.shape[1]
        rows, _ = tensors.allgather(_statistics(wide, axes), place).finish()
        counts, means, deviations = rows[:, :1], rows[:, 1 : channels + 1], rows[:, channels + 1 :]
        total = counts.sum()
        mean = (means * counts).sum(0) / total
        variance = (deviations + counts * (means - mean).square()).sum(0) / total
        inverse = torch.rsqrt(variance + eps)
        normal = (wide - _by_channel(mean, x)) * _by_channel(inverse, x)
        ctx.save_for_backward(normal, inverse, weight, total)
        ctx.place, ctx.axes = place, axes
        ctx.bias_type = None if bias is None else bias.dtype
        ctx.mark_non_differentiable(mean, variance, total)
        output = normal if weight is None else normal * _by_channel(weight, x)
        if bias is not None:
            output = output + _by_channel(bias, x)
        return output.to(x.dtype, copy=output is normal), mean, variance, total

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, *_statistics: Any) -> tuple[Any, ...]:
        normal, inverse, weight, total = ctx.saved_tensors
        wide = gradient.to(normal.dtype)
        channels = normal.shape[1]
        sums = torch.cat([wide.sum(ctx.axes), (wide * normal).sum(ctx.axes)])
        # The gradients of the affine parameters stay this rank's own, because an optimizer reduces
        # them.
        of_bias, of_weight = sums[:channels].clone(), sums[channels:].clone()
        means = tensors.allreduce(sums, sums, Reduction(Sum), ctx.place).finish() / total
        scale = inverse if weight is None else inverse * weight
        of_input = wide - _by_channel(means[:channels], normal)
        of_input = of_input - normal * _by_channel(means[channels:], normal)
        of_input = of_input * _by_channel(scale, normal)
        return (
            of_input.to(gradient.dtype),
            None if weight is None else of_weight.to(weight.dtype),
            None if ctx.bias_type is None else of_bias.to(ctx.bias_type),
            None,
            None,
        )
