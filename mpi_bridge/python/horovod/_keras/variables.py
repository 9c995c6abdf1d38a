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
    model: Any, root_rank: int, process_set: ProcessSet = global_process_set
) -> None:
    """Collective: bring the model's variables and its optimizer's to the root's values."""
    synchronize(model)
    # Not model.variables, because seeds of random layers stay different on each rank.
    broadcast("model", model.weights, root_rank, process_set)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        broadcast("optimizer", optimizer.variables, root_rank, process_set)
