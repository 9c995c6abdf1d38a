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
        self._layers: list[Any] = []

    def add(self, variables: Iterable[Any]) -> None:
        """Register variables as local."""
        self._variables.update((id(variable), variable) for variable in variables)

    def add_layers(self, layers: Any) -> None:
        """Register what these layers train as local, also what they come to train later."""
        self._layers.extend(layers_of(layers))

    def without(
        self, variables: Sequence[Any], values: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Return the variables that are not local, and their values."""
        self._look_at_layers()
        shared = [(v, value) for v, value in zip(variables, values) if not self._is_local(v)]
        return [v for v, _ in shared], [value for _, value in shared]

    def _look_at_layers(self) -> None:
        for layer in self._layers:
            self.add(layer.trainable_weights)

    def _is_local(self, variable: Any) -> bool:
        return id(variable) in self._variables

    def reduce_others(
        self,
        gradients: Sequence[Any],
        variables: Sequence[Any],
        reduce: Callable[[list[Any], list[Any]], list[Any]],
        divided: Callable[[Any], Any],
    ) -> list[Any]:
        """Return the gradients, reduced except for those of local variables."""
        self._look_at_layers()
        if not self._variables:
            return reduce(list(gradients), list(variables))
        results = list(gradients)
        shared = [i for i, variable in enumerate(variables) if not self._is_local(variable)]
        if self._scale:
            for position in set(range(len(results))) - set(shared):
                if results[position] is not None:
                    results[position] = divided(results[position])
        reduced = reduce([gradients[i] for i in shared], [variables[i] for i in shared])
        for position, gradient in zip(shared, reduced):
            results[position] = gradient
        return results


def layers_of(layers: Any) -> list[Any]:
    """Return the list of one or several layers; none for None."""
    if layers is None:
        return []
    return list(layers) if isinstance(layers, (list, tuple, set)) else [layers]
