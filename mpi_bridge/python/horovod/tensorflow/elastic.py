# SPDX-License-Identifier: Apache-2.0
"""Elastic training with TensorFlow: hvd.elastic.run and its states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from mpi_bridge import world

from .._keras import objects
from .._keras.elastic import KerasState, run
from ..common.elastic import ObjectState
from ..common.unsupported import not_supported
from .functions import broadcast_variables, tensorflow_variable


class TensorFlowKerasState(KerasState):
    """The weights of a built Keras model, its optimizer's state, and attributes by keyword."""


class TensorFlowState(ObjectState):
    """tf.Variables, and attributes given by keyword; tf.compat.v1 sessions are not supported."""

    def __init__(
        self, variables: Iterable[Any] | None = None, session: Any = None, **kwargs: Any
    ) -> None:
        if variables is None or session is not None:
            raise not_supported(
                "TensorFlowState of a tf.compat.v1 session", "give the list of tf.Variables"
            )
        self._variables = [tensorflow_variable(variable) for variable in variables]
        super().__init__(objects.broadcast_object, world.rank, **kwargs)
        self._save_variables()

    def save(self) -> None:
        """Remember the variables and the attributes."""
        self._save_variables()
        super().save()

    def restore(self) -> None:
        """Go back to the saved state."""
        self._assign_variables()
        super().restore()

    def sync(self) -> None:
        """Collective: take over rank 0's state."""
        broadcast_variables(self._variables, root_rank=0)
        self._save_variables()
        super().sync()

    def committed(self) -> Any:
        """Return the saved state, for a later process."""
        return {"variables": self._saved_variables, "attributes": super().committed()}

    def adopt(self, committed: Any) -> None:
        """Take over the state that an earlier process has saved."""
        self._saved_variables = committed["variables"]
        self._assign_variables()
        super().adopt(committed["attributes"])

    def _save_variables(self) -> None:
        self._saved_variables = [np.array(variable.numpy()) for variable in self._variables]

    def _assign_variables(self) -> None:
        if len(self._saved_variables) != len(self._variables):
            raise ValueError(
                f"{len(self._saved_variables)} saved values for {len(self._variables)} variables"
            )
        for variable, value in zip(self._variables, self._saved_variables):
            variable.assign(tf.convert_to_tensor(value))


__all__ = ["TensorFlowKerasState", "TensorFlowState", "run"]
