# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer(op=Adasum): each rank takes its own step, and the steps are combined.

The ranks do not combine the gradients but the changes that the optimizer makes from them, so that
its momentum and its adaptive rates are based on this rank's own gradients.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Callable

import torch

from ..common.process_sets import ProcessSet
from ..common.reduce_ops import Adasum
from . import adasum
from .tensors import Place, Reduction


class AdasumMixin:
    """Precedes the user's optimizer class among the bases made by DistributedOptimizer."""

    def _start(
        self, names: dict[torch.Tensor, str], compression: Any, process_set: ProcessSet
    ) -> None:
        self._names = names
        self._compression = compression
        self._process_set = process_set

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Accepted without effect: each rank adds up its gradients until step() in any case."""
        if passes < 1:
            raise ValueError(f"backward_passes_per_step must be at least 1, not {passes}")

    def synchronize(self) -> None:
        """Do nothing: gradients stay as they are, and step() combines what they change."""

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Refused: there is no synchronize() to skip."""
        raise AssertionError("skip_synchronize() is not for op=Adasum: step() is the reduction")
        yield

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Collective: step on this rank's gradients, then combine the changes of all ranks."""
        if not self._process_set.included() or self._process_set.size() == 1:
            return super().step(closure)
        parameters = [p for p in self._names if p.requires_grad]
        before = [p.detach().clone() for p in parameters]
        result = super().step(closure)
        with torch.no_grad():
            changes = [p.detach() - old for p, old in zip(parameters, before)]
            compressed = [self._compression.compress(change) for change in changes]
            travelling = [tensor for tensor, _ in compressed]
            place = Place(f"step.{next(iter(self._names.values()))}", self._process_set)
            combined = adasum.begin(travelling, travelling, Reduction(Adasum), place, list).finish()
            for parameter, old, change, (_, context) in zip(
                parameters, before, combined, compressed
            ):
                parameter.copy_(old + self._compression.decompress(change, context))
        return result

    step.hooked = True
