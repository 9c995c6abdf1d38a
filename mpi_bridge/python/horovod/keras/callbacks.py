# SPDX-License-Identifier: Apache-2.0
"""Callbacks for model.fit()."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

import mpi_bridge

from ..common.process_sets import global_process_set, require_global
from ..common.unsupported import unsupported_function
from .gradients import broadcast_variables
from .optimizer import is_distributed


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):
    """Brings all ranks to the root's weights and optimizer state at the end of the first batch.

    Not earlier, because only then do the optimizer's slots exist. It also turns off compilation of
    the training step by XLA, which cannot hold the reduction of a DistributedOptimizer.
    """

    def __init__(
        self,
        root_rank: int,
        device: str = "",
        local_variables: Any = None,
        process_set: Any = global_process_set,
    ) -> None:
        super().__init__()
        require_global(process_set)
        self._root_rank = root_rank
        self._is_done = False

    def set_model(self, model: keras.Model) -> None:
        """Learn the model; called before its training step is made."""
        super().set_model(model)
        if is_distributed(getattr(model, "optimizer", None)) and model.jit_compile:
            model.jit_compile = False
            model.train_function = None

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Broadcast once."""
        if self._is_done:
            return
        broadcast_variables("the model's weights", self.model.weights, self._root_rank)
        optimizer = getattr(self.model, "optimizer", None)
        if optimizer is not None:
            broadcast_variables("the optimizer's state", optimizer.variables, self._root_rank)
        self._is_done = True


class MetricAverageCallback(keras.callbacks.Callback):
    """Replaces each metric at the end of an epoch by its average over all ranks.

    Put it before callbacks that read metrics, such as ReduceLROnPlateau.
    """

    def __init__(self, device: str = "", process_set: Any = global_process_set) -> None:
        super().__init__()
        require_global(process_set)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Average the logs, in the order of their names."""
        if not logs:
            return
        names = sorted(logs)
        values = np.array([float(logs[name]) for name in names], dtype=np.float64)
        mpi_bridge.allreduce(values, op=mpi_bridge.Op.AVERAGE)
        logs.update(zip(names, values.tolist()))


LearningRateScheduleCallback = unsupported_function(
    "LearningRateScheduleCallback", "use keras.callbacks.LearningRateScheduler"
)
LearningRateWarmupCallback = unsupported_function(
    "LearningRateWarmupCallback", "use a keras.optimizers.schedules schedule"
)
BestModelCheckpoint = unsupported_function(
    "BestModelCheckpoint", "use keras.callbacks.ModelCheckpoint(save_best_only=True) on rank 0"
)
