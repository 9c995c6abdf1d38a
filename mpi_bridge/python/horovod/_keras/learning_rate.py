# SPDX-License-Identifier: Apache-2.0
"""Callbacks that change the learning rate, as Goyal et al. do it ("Accurate, Large Minibatch SGD").

With momentum correction the momentum is multiplied by new rate / old rate for one batch when the
rate changes, because the accumulated gradients were scaled with the old rate. Keras 3 compiles the
momentum into the training step as a constant, so here the accumulated values are multiplied
instead, which gives the same product.
"""

from __future__ import annotations

from typing import Any, Callable, Union

import keras

from mpi_bridge import world

from .variables import synchronize

Multiplier = Union[float, Callable[[float], float]]


class LearningRateScheduleCallback(keras.callbacks.Callback):
    """Sets the learning rate to initial_lr * multiplier(epoch) from start_epoch to end_epoch.

    A number as multiplier is a base: multiplier ** (epoch - start_epoch). With `staircase` the rate
    changes at the beginning of each epoch. Otherwise it changes with each batch, and `epoch` has a
    fraction; this needs `steps_per_epoch` if fit() does not know it.
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: Multiplier,
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        if initial_lr is None:
            raise ValueError("initial_lr is required")
        self.initial_lr = initial_lr
        is_function = callable(multiplier)
        self.multiplier = multiplier if is_function else lambda e: multiplier ** (e - start_epoch)
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = 0

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Find the number of steps in an epoch, if it is needed."""
        if self.staircase or self.steps_per_epoch:
            return
        self.steps_per_epoch = self.params.get("steps")
        if not self.steps_per_epoch:
            raise ValueError(
                f"{type(self).__name__} needs steps_per_epoch: fit() does not know the length of "
                "the data"
            )

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Remember the epoch."""
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Set the rate for this batch."""
        is_after = self.end_epoch is not None and self.current_epoch >= self.end_epoch
        if self.current_epoch < self.start_epoch or is_after:
            return
        if not self.staircase:
            self._set_rate(self.current_epoch + batch / self.steps_per_epoch)
        elif batch == 0:
            self._set_rate(self.current_epoch)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Report the rate as the metric "lr"."""
        if logs is not None:
            logs["lr"] = self._rate()

    def _rate(self) -> float:
        return float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))

    def _set_rate(self, epoch: float) -> None:
        optimizer = self.model.optimizer
        synchronize(self.model)
        old, new = self._rate(), self.initial_lr * self.multiplier(epoch)
        optimizer.learning_rate = new
        if self.momentum_correction and old != new and old != 0:
            for gathered in _momentum_variables(optimizer):
                gathered.assign(gathered.value * (new / old))


def _momentum_variables(optimizer: Any) -> list[Any]:
    """Return the optimizer's momentum variables, whose contents are scaled by the learning rate."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    if not optimizer.built or not getattr(optimizer, "momentum", 0):
        return []
    found = getattr(optimizer, "momentums", None) or getattr(optimizer, "_momentums", None)
    return [variable for variable in found or [] if variable is not None]


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the learning rate from initial_lr / size() to initial_lr during the first epochs."""

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: float = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            # The last batch of an epoch gets the rate that belongs to the end of the epoch.
            epoch += 1.0 / self.steps_per_epoch
            size = world.size()
            return 1.0 / size * (epoch * (size - 1) / warmup_epochs + 1)

        super().__init__(
            initial_lr,
            multiplier,
            start_epoch=0,
            end_epoch=warmup_epochs,
            staircase=False,
            momentum_correction=momentum_correction,
            steps_per_epoch=steps_per_epoch,
        )
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Report the rate, and on rank 0 the end of the warm-up."""
        super().on_epoch_end(epoch, logs)
        if epoch == self.end_epoch - 1 and self.verbose > 0 and world.rank() == 0:
            print(
                f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {self._rate():g}."
            )
