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

from mpi_bridge import Op, engine
from mpi_bridge.engine import Kind
from mpi_bridge.replicas import Checks

from ..common.agreement import require_same
from ..common.process_sets import ProcessSet, has_other_ranks, number_of
from ..common.reduce_ops import Adasum
from . import adasum
from .placement import described_tensor
from .tensors import Place, Reduction
from .wrapped import WrappedMixin


class AdasumMixin(WrappedMixin):
    """Takes the step, and combines it with those of the other ranks."""

    def _start(self, compression: Any, process_set: ProcessSet) -> None:
        self._compression = compression
        self._process_set = process_set
        self._place = Place(f"step.{next(iter(self._current_names().values()))}", process_set)
        self._agreed_on: tuple[tuple[int, int], list[str]] | None = None  # when, and on which names

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
        if not has_other_ranks(self._process_set):
            result = super().step(closure)
            self._has_stepped()
            return result
        parameters = self._parameters_of_step()
        before = [p.detach().clone() for p in parameters]
        result = super().step(closure)
        with torch.no_grad():
            changes = [p.detach() - old for p, old in zip(parameters, before)]
            compressed = [self._compression.compress(change) for change in changes]
            travelling = [tensor for tensor, _ in compressed]
            combined = adasum.begin(
                travelling, travelling, Reduction(Adasum), self._place, list
            ).finish()
            for parameter, old, change, (_, context) in zip(
                parameters, before, combined, compressed
            ):
                parameter.copy_(old + self._compression.decompress(change, context))
        self._has_stepped()
        return result

    step.hooked = True

    def _parameters_of_step(self) -> list[torch.Tensor]:
        """Collective: return the parameters that any rank's step may change.

        A script may have frozen or unfrozen some, or changed the optimizer's groups.
        """
        names = self._current_names()
        number = number_of(self._process_set)
        if self._agreed_on is None or self._agreed_on[0] != engine.session_and_joins():
            self._agree(names, number)
        is_changed = self._agreed_on[1] != list(names.values())
        # An optimizer also steps on the gradient that a frozen parameter has kept.
        needed = [p.requires_grad or p.grad is not None for p in names]
        flags = torch.tensor([int(flag) for flag in (*needed, is_changed)])
        # If only some ranks have further parameters, their lists of flags differ in length.
        engine.call(
            Kind.ALLREDUCE,
            flags,
            flags,
            op=Op.MAX,
            name=f"parameters of {self._place.name}",
            process_set=number,
        )
        *needed, is_changed = flags.tolist()
        if is_changed:
            self._agree(names, number)
        return [p for p, is_needed in zip(names, needed) if is_needed]

    def _agree(self, names: dict[torch.Tensor, str], number: int) -> None:
        described = ", ".join(f"{name}:{described_tensor(p)}" for p, name in names.items())
        require_same("the parameters of DistributedOptimizer", described, number)
        Checks("DistributedOptimizer", number).require_same_interval()
        self._agreed_on = (engine.session_and_joins(), list(names.values()))
