# SPDX-License-Identifier: Apache-2.0
"""backward_passes_per_step: adds up the gradients of several batches before they are reduced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import keras
from keras import ops

Gradients = Sequence[Any]


class Aggregation:
    """Adds gradients up in variables of the optimizer, so that they are part of a compiled step."""

    def __init__(self, passes: int, average: bool) -> None:
        if passes < 1:
            raise ValueError(f"backward_passes_per_step must be >= 1, not {passes}")
        self._passes = passes
        self._average = average
        self._counter: Any = None
        self._sums: list[Any] = []

    @property
    def is_on(self) -> bool:
        """Tell whether a step has more than one batch."""
        return self._passes > 1

    @property
    def sums(self) -> Sequence[Any]:
        """The sum of each variable's gradients, in the order of the variables; may be empty."""
        return self._sums

    def build(self, optimizer: Any, variables: Sequence[Any]) -> None:
        """Make the variables once, after those of the user's optimizer."""
        if not self.is_on or self._counter is not None:
            return
        self._counter = optimizer.add_variable((), dtype="int32", name="aggregated_passes")
        self._sums = [
            optimizer.add_variable_from_reference(variable, name="aggregated_gradient")
            for variable in variables
        ]

    def others(self, optimizer: Any) -> list[Any]:
        """Return the optimizer's variables without the ones made here."""
        own = {id(variable) for variable in (self._counter, *self._sums)}
        return [variable for variable in optimizer.variables if id(variable) not in own]

    def apply(
        self,
        optimizer: Any,
        gradients: Gradients,
        variables: Sequence[Any],
        reduce: Callable[[Gradients], Gradients],
        apply: Callable[[Gradients], None],
    ) -> None:
        """Add the gradients up; with the last batch of each step, reduce and apply them."""
        if not self.is_on:
            apply(reduce(gradients))
            return
        sums = [self._sums[optimizer._get_variable_index(variable)] for variable in variables]
        totals = [
            None if gradient is None else _dense(gradient) + total
            for gradient, total in zip(gradients, sums)
        ]
        passes = self._counter + 1
        is_last = ops.equal(passes, self._passes)
        self._counter.assign(ops.where(is_last, 0, passes))
        if keras.backend.backend() == "jax":
            self._apply_selected(optimizer, is_last, totals, sums, reduce, apply)
            return

        def step() -> None:
            # In a graph of TensorFlow all gradients must belong to the branch, reduced or not.
            own = [None if total is None else ops.add(total, 0) for total in totals]
            apply(self._averaged(reduce(own)))
            for total in sums:
                total.assign(ops.zeros_like(total))

        def wait() -> None:
            for total, value in zip(sums, totals):
                if value is not None:
                    total.assign(value)
            optimizer.iterations.assign_add(1)

        ops.cond(is_last, step, wait)

    def _averaged(self, gradients: Gradients) -> Gradients:
        if not self._average:
            return gradients
        return [None if gradient is None else gradient / self._passes for gradient in gradients]

    def _apply_selected(
        self,
        optimizer: Any,
        is_last: Any,
        totals: Gradients,
        sums: Sequence[Any],
        reduce: Callable[[Gradients], Gradients],
        apply: Callable[[Gradients], None],
    ) -> None:
        """Do the same on JAX, where a branch cannot assign variables: apply always, then select."""
        import jax

        present = [i for i, total in enumerate(totals) if total is not None]

        def reduced(values: list[Any]) -> list[Any]:
            sparse: list[Any] = [None] * len(totals)
            for position, value in zip(present, values):
                sparse[position] = value
            results = self._averaged(reduce(sparse))
            return [results[position] for position in present]

        chosen = jax.lax.cond(is_last, reduced, list, [totals[i] for i in present])
        gradients: list[Any] = [None] * len(totals)
        for position, value in zip(present, chosen):
            gradients[position] = value
        own = {id(self._counter), id(optimizer.iterations)} | {id(total) for total in sums}
        targets = [
            variable
            for variable in (*optimizer._trainable_variables, *optimizer.variables)
            if id(variable) not in own
        ]
        before = [variable.value for variable in targets]
        apply(gradients)
        for variable, value in zip(targets, before):
            variable.assign(ops.where(is_last, variable.value, value))
        for position in present:
            zeros = ops.zeros_like(totals[position])
            sums[position].assign(ops.where(is_last, zeros, totals[position]))


def _dense(gradient: Any) -> Any:
    """Return the gradient; refuse a sparse one, because it would grow with each batch."""
    if type(gradient).__name__ == "IndexedSlices" or getattr(gradient, "is_sparse", False):
        raise ValueError(
            "backward_passes_per_step > 1 cannot add up sparse gradients; pass sparse_as_dense=True"
        )
    return gradient
