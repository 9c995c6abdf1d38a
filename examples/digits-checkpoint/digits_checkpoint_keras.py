#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains on scikit-learn's digits with Keras, and goes on from its last checkpoint when run again.

It writes a checkpoint after every epoch, and at once when SIGUSR1 or SIGTERM says that the job will
be ended. It then ends with exit code 75.
"""

from __future__ import annotations

import signal

asked_to_stop = False


def stop_soon(_number: int, _frame: object) -> None:
    """Remember the signal; the training looks at it after each step."""
    global asked_to_stop
    asked_to_stop = True


# As early as possible: without a handler these signals end the process, and importing TensorFlow
# takes seconds.
signal.signal(signal.SIGUSR1, stop_soon)
signal.signal(signal.SIGTERM, stop_soon)

import argparse  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

import horovod.keras as hvd  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402

RUN_ME_AGAIN = 75  # EX_TEMPFAIL of sysexits.h
LARGEST_PIXEL = 16.0


class StopTogether(keras.callbacks.Callback):
    """Ends the epoch after the same step on all ranks, once one of them has had the signal."""

    def __init__(self, pause: float) -> None:
        super().__init__()
        self.pause = pause
        self.steps = 0
        self.stopped = False

    def on_train_batch_end(self, _batch: int, logs: dict[str, float] | None = None) -> None:
        """Count the step and ask all ranks."""
        self.steps += 1
        asked = hvd.allreduce(np.float32(asked_to_stop), name="asked_to_stop", op=hvd.Max)
        if float(asked) > 0:
            self.stopped = True
            self.model.stop_training = True
        else:
            time.sleep(self.pause)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, required=True, help="the file to write")
    parser.add_argument("--epochs", type=int, default=10, help="default %(default)s")
    parser.add_argument("--batch-size", type=int, default=16, help="images per step and rank")
    parser.add_argument("--pause", type=float, default=0, help="seconds to wait after each step")
    return parser.parse_args()


def make_model() -> keras.Model:
    """Return the network with its optimizer, whose state is a part of the checkpoint."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    # Gradients are averaged over all ranks before they are applied.
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.05, momentum=0.9))
    model.compile(loss="sparse_categorical_crossentropy", optimizer=optimizer)
    optimizer.build(model.trainable_variables)
    return model


def state_of(model: keras.Model) -> list[keras.Variable]:
    """Return all variables that a checkpoint has, always in the same order."""
    return [*model.variables, *model.optimizer.variables]


def save(path: Path, model: keras.Model, epoch: int, step: int) -> None:
    """Replace the checkpoint, so that there is always a whole one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    values = {str(i): np.asarray(value) for i, value in enumerate(state_of(model))}
    with new.open("wb") as file:
        np.savez(file, epoch=epoch, step=step, **values)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def load(path: Path, model: keras.Model) -> tuple[int, int]:
    """Return the epoch and the step to go on with."""
    if not path.exists():
        return 0, 0
    with np.load(path) as state:
        for i, variable in enumerate(state_of(model)):
            variable.assign(state[str(i)])
        return int(state["epoch"]), int(state["step"])


def main() -> int:
    """Train from where the last attempt stopped."""
    options = parse_arguments()
    hvd.init()
    images, labels = load_digits(return_X_y=True)
    images = (images / LARGEST_PIXEL).astype("float32")
    steps = len(images) // hvd.size() // options.batch_size
    model = make_model()
    epoch, step = load(options.checkpoint, model)
    if hvd.rank() == 0:
        print(f"starts at epoch {epoch}, step {step}", flush=True)

    def checkpoint(epoch: int, step: int) -> None:
        if hvd.rank() == 0:
            save(options.checkpoint, model, epoch, step)
        hvd.barrier()

    while epoch < options.epochs:
        # The order of the images depends on the epoch only, and each rank has its own part of it.
        order = np.random.default_rng(epoch).permutation(len(images))[hvd.rank() :: hvd.size()]
        mine = order[step * options.batch_size : steps * options.batch_size]
        stopper = StopTogether(options.pause)
        history = model.fit(
            images[mine],
            labels[mine],
            batch_size=options.batch_size,
            shuffle=False,
            verbose=0,
            callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), stopper],
        )
        step += stopper.steps
        if stopper.stopped and step < steps:
            checkpoint(epoch, step)
            if hvd.rank() == 0:
                print(f"stops after epoch {epoch}, step {step}", flush=True)
            return RUN_ME_AGAIN
        epoch, step = epoch + 1, 0
        checkpoint(epoch, step)
        if hvd.rank() == 0:
            loss = history.history["loss"][-1]
            print(f"Epoch {epoch}/{options.epochs} - loss: {loss:.4f}", flush=True)
        if stopper.stopped and epoch < options.epochs:
            return RUN_ME_AGAIN
    if hvd.rank() == 0:
        print("has finished", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
