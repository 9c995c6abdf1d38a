# SPDX-License-Identifier: Apache-2.0
"""Reads and broadcasts Keras variables of every backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from mpi_bridge import world

from ..common.process_sets import ProcessSet, global_process_set, number_of
from . import operations


def synchronize(model: Any) -> None:
    """Make the variables hold what the training step has last computed.

    On JAX fit() keeps the state outside of the variables; after this call the next step starts from
    the variables again.
    """
    if keras.backend.backend() == "jax" and hasattr(model, "jax_state_sync"):
        model.jax_state_sync()


def values_of(variables: Sequence[Any]) -> list[np.ndarray]:
    """Return copies of the variables' values."""
    # A view of memory that the backend later overwrites would change after it was saved.
    return [
        np.array(keras.ops.convert_to_numpy(variable.value), order="C") for variable in variables
    ]


def assign(variables: Sequence[Any], values: Sequence[np.ndarray]) -> None:
    """Give the variables these values."""
    if len(variables) != len(values):
        raise ValueError(f"{len(values)} saved values for {len(variables)} variables")
    for variable, value in zip(variables, values):
        variable.assign(value)


def broadcast(
    what: str,
    variables: Sequence[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Collective: assign the root's values. Variables are matched by their position.

    `what` says what the variables belong to, for the names of the operations.
    """
    if not variables:
        return
    received = operations.broadcast(
        values_of(variables), root_rank, number_of(process_set), f"broadcast.{what}"
    )
    if world.rank() != root_rank:
        assign(variables, received)


def broadcast_model(
    model: Any,
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    local: Sequence[Any] = (),
) -> None:
    """Collective: bring the model's variables and its optimizer's to the root's values.

    The variables in `local`, and what the optimizer has for them, stay as they are on each rank.
    """
    synchronize(model)
    # Not model.variables, because seeds of random layers stay different on each rank.
    broadcast("model", _without(model.weights, local), root_rank, process_set)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        shared = _without(optimizer.variables, _slots(optimizer, local))
        broadcast("optimizer", shared, root_rank, process_set)


def _without(variables: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Return the variables that are not among the others, which may be the backend's own."""
    kept_out = {id(other) for other in others}
    return [
        variable
        for variable in variables
        if id(variable) not in kept_out and id(variable.value) not in kept_out
    ]


def _slots(optimizer: Any, variables: Sequence[Any]) -> list[Any]:
    """Return what the optimizer has for each of these variables, such as their momentum."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    trained = list(optimizer._trainable_variables or ()) if optimizer.built else []
    shared = {id(variable) for variable in _without(trained, variables)}
    positions = [i for i, variable in enumerate(trained) if id(variable) not in shared]
    # An optimizer keeps them in lists in the order of the variables that it trains; `_variables` is
    # the list of everything that it has.
    lists = [kept for name, kept in vars(optimizer).items() if name != "_variables"]
    distribution = getattr(optimizer, "_distribution", None)
    if distribution is not None:
        lists.append(distribution.aggregation.sums)
    return [
        kept[position]
        for kept in lists
        if isinstance(kept, (list, tuple)) and len(kept) == len(trained)
        for position in positions
    ]
