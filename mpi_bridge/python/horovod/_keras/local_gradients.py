# SPDX-License-Identifier: Apache-2.0
"""Variables that belong to a single rank: their gradients are not reduced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any


class LocalVariables:
    """The local variables, and how their gradients are treated.

    With `scale` a local gradient is divided by the number of ranks, so that it follows the average
    of all ranks' losses, as the reduced gradients do.
    """

    def __init__(self, scale: bool) -> None:
        self._scale = scale
        # The variables are kept, so that no new variable gets the identity of a deleted one.
        self._variables: dict[int, Any] = {}

    def add(self, variables: Iterable[Any]) -> None:
        """Register variables as local."""
        self._variables.update((id(variable), variable) for variable in variables)

    def reduce_others(
        self,
        gradients: Sequence[Any],
        variables: Sequence[Any],
        reduce: Callable[[list[Any], list[Any]], list[Any]],
        divided: Callable[[Any, int], Any],
        size: int,
    ) -> list[Any]:
        """Return the gradients, reduced except for those of local variables."""
        if not self._variables:
            return reduce(list(gradients), list(variables))
        results = list(gradients)
        shared = [i for i, variable in enumerate(variables) if id(variable) not in self._variables]
        if self._scale:
            for position in set(range(len(results))) - set(shared):
                if results[position] is not None:
                    results[position] = divided(results[position], size)
        reduced = reduce([gradients[i] for i in shared], [variables[i] for i in shared])
        for position, gradient in zip(shared, reduced):
            results[position] = gradient
        return results


def variables_of(layers: Any) -> list[Any]:
    """Return the trainable weights of one or several layers; none for None."""
    if layers is None:
        return []
    if not isinstance(layers, (list, tuple, set)):
        layers = [layers]
    return [weight for layer in layers for weight in layer.trainable_weights]
