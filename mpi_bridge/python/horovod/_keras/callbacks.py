# SPDX-License-Identifier: Apache-2.0
"""Callbacks for model.fit() that act on all ranks together."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from mpi_bridge import world

from ..common.process_sets import ProcessSet, global_process_set, number_of
from ..common.reduce_ops import Average
from . import operations
from .operations import Reduction
from .optimizer import is_distributed
from .variables import broadcast_model


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):
    """Brings all ranks to the root's weights and optimizer state at the end of the first batch.

    The optimizer's variables do not exist earlier. On TensorFlow it also turns off compilation of
    the training step by XLA, which cannot contain the reduction of a DistributedOptimizer.
    `local_variables`, one or several, keep the values of this rank, and so does what the optimizer
    has for each of them. `device` is accepted and has no meaning.
    """

    def __init__(
        self,
        root_rank: int,
        device: str = "",
        local_variables: Any = None,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        super().__init__()
        self._root_rank = root_rank
        self._process_set = process_set
        self._is_done = False
        self._local_variables: list[Any] = []
        for variable in _as_list(local_variables):
            self.register_local_var(variable)

    def register_local_var(self, variable: Any) -> None:
        """Leave this variable as it is on this rank."""
        if not hasattr(variable, "assign") and not keras.ops.is_tensor(variable):
            raise ValueError(f"a local variable must be a variable, not {type(variable).__name__}")
        self._local_variables.append(variable)

    def set_model(self, model: keras.Model) -> None:
        """Learn the model; called before its training step is made."""
        super().set_model(model)
        is_tensorflow = keras.backend.backend() == "tensorflow"
        if is_tensorflow and is_distributed(model.optimizer) and model.jit_compile:
            model.jit_compile = False
            model.train_function = None

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Broadcast once."""
        if not self._is_done:
            broadcast_model(
                self.model, self._root_rank, self._process_set, local=self._local_variables
            )
            self._is_done = True


def _as_list(variables: Any) -> list[Any]:
    if variables is None:
        return []
    return list(variables) if isinstance(variables, (list, tuple, set)) else [variables]


class MetricAverageCallback(keras.callbacks.Callback):
    """Replaces each metric at the end of an epoch by its average over all ranks.

    Put it before callbacks that read metrics, such as ReduceLROnPlateau. `device` is accepted and
    has no meaning.
    """

    def __init__(self, device: str = "", process_set: ProcessSet = global_process_set) -> None:
        super().__init__()
        self._process_set = process_set

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Average the logs, in the order of their names."""
        if not logs:
            return
        names = sorted(logs)
        values = np.array([float(logs[name]) for name in names], dtype=np.float64)
        average = Reduction(Average, 1.0, 1.0, number_of(self._process_set))
        (averaged,) = operations.allreduce([values], average, "MetricAverageCallback")
        logs.update(zip(names, averaged.tolist()))


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
    """ModelCheckpoint(save_best_only=True) that writes on rank 0 only.

    The file may be set later, by the attribute `filepath`, but before training begins. All ranks
    must see the same metric, so put it after MetricAverageCallback.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: Any = "epoch",
        filepath: Any = None,
    ) -> None:
        placeholder = "unnamed.weights.h5" if save_weights_only else "unnamed.keras"
        super().__init__(
            filepath if filepath is not None else placeholder,
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )
        self.filepath = filepath

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Check that the file has a name."""
        if self.filepath is None:
            raise ValueError("BestModelCheckpoint: set filepath before training begins")
        super().on_train_begin(logs)

    def _save_model(self, epoch: int, batch: int | None, logs: dict[str, Any] | None) -> None:
        if world.rank() == 0:
            super()._save_model(epoch, batch, logs)
