# SPDX-License-Identifier: Apache-2.0
"""The state of a Keras model for elastic training, and callbacks that keep it up to date."""

from __future__ import annotations

import functools
from typing import Any, Callable

import keras

from mpi_bridge import world

from ..common import basics
from ..common.elastic import ObjectState, run_fn
from . import failures, objects, variables


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Make func(state, ...) elastic: after a failure it starts again from the last commit."""

    @functools.wraps(func)
    def with_own_errors(*args: Any, **kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except Exception as error:
            cause = failures.cause_of(error)
            if cause is None:
                raise
            raise cause from error

    return run_fn(with_own_errors, _reset)


def _reset() -> None:
    basics.shutdown()
    basics.init()


class KerasState(ObjectState):
    """The weights of a built model, its optimizer's state, and attributes given by keyword.

    Unless an optimizer is given, it is the one with which the model is compiled at that time.
    `backend` is accepted and has no meaning.
    """

    def __init__(
        self, model: keras.Model, optimizer: Any = None, backend: Any = None, **kwargs: Any
    ) -> None:
        if not model.built:
            raise ValueError("the model must be built first; call model.build(input_shape)")
        self.model = model
        self._own_optimizer = optimizer
        super().__init__(objects.broadcast_object, world.rank, **kwargs)
        self._save_model()

    @property
    def optimizer(self) -> Any:
        """The optimizer whose state is kept; None if there is none."""
        return self._own_optimizer or getattr(self.model, "optimizer", None)

    @optimizer.setter
    def optimizer(self, optimizer: Any) -> None:
        self._own_optimizer = optimizer

    def save(self) -> None:
        """Remember the model and the attributes."""
        self._save_model()
        super().save()

    def restore(self) -> None:
        """Go back to the saved state."""
        self._assign_model()
        super().restore()

    def sync(self) -> None:
        """Collective: take over rank 0's state."""
        self._optimizer_variables()  # they are built before they are broadcast
        variables.broadcast_model(self.model, root_rank=0)
        if self.optimizer is not None and self.optimizer is not getattr(
            self.model, "optimizer", None
        ):
            variables.broadcast("optimizer", self.optimizer.variables, 0)
        self._save_model()
        super().sync()

    def committed(self) -> Any:
        """Return the saved state, for a later process."""
        return {"model": self._saved_model, "attributes": super().committed()}

    def adopt(self, committed: Any) -> None:
        """Take over the state that an earlier process has saved."""
        self._saved_model = committed["model"]
        self._assign_model()
        super().adopt(committed["attributes"])

    def _optimizer_variables(self) -> list[Any]:
        if self.optimizer is None:
            return []
        if not self.optimizer.built:
            # Build the optimizer, so that there are as many variables to restore as there will be
            # to save.
            self.optimizer.build(self.model.trainable_variables)
        return list(self.optimizer.variables)

    def _save_model(self) -> None:
        variables.synchronize(self.model)
        self._saved_model = {
            "weights": variables.values_of(self.model.weights),
            "optimizer": variables.values_of(self._optimizer_variables()),
        }

    def _assign_model(self) -> None:
        variables.synchronize(self.model)
        variables.assign(self.model.weights, self._saved_model["weights"])
        variables.assign(self._optimizer_variables(), self._saved_model["optimizer"])


class CommitStateCallback(keras.callbacks.Callback):
    """Commits the state after every `batches_per_commit` batches, and after each epoch.

    Put it after the callbacks that update the state.
    """

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__()
        self._state = state
        self._batches_per_commit = batches_per_commit
        self._batches_left = batches_per_commit

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Count from the beginning, so that all ranks commit together."""
        self._batches_left = self._batches_per_commit

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Commit every `batches_per_commit` batches."""
        self._batches_left -= 1
        if self._batches_left == 0:
            self._state.commit()
            self._batches_left = self._batches_per_commit

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Commit."""
        self._state.commit()


class UpdateBatchStateCallback(keras.callbacks.Callback):
    """Keeps state.batch at the number of the batch; 0 between epochs.

    After a restore the script has to leave out the batches before state.batch, for instance with
    fit(steps_per_epoch=...): in Keras 3 a callback cannot shorten the first epoch.
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        self._state = state

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Remember the batch."""
        self._state.batch = batch

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Begin a new epoch."""
        self._state.batch = 0


class UpdateEpochStateCallback(keras.callbacks.Callback):
    """Keeps state.epoch at the number of completed epochs, including those of earlier runs."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self._state = state
        self._done_before = 0

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Remember where this run began."""
        self._done_before = self._state.epoch

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Count the epoch."""
        self._state.epoch = self._done_before + epoch + 1
