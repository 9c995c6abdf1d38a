#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains a small convolutional network on CIFAR-10, on all ranks of a job at once.

One rank alone works too. What makes it distributed is marked with "Distributed:".
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import socket
import sys
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import cifar10_files
import horovod.keras as hvd
import keras
import numpy as np
import tensorflow as tf
from keras import layers

# The model is wanted in this format; being told so at every checkpoint hides real errors.
logging.getLogger("absl").addFilter(lambda record: "HDF5 file" not in record.getMessage())

CLASS_COUNT = 10
MODEL_FILE = "keras_cifar10_trained_model.h5"
LEARNING_RATE_OF_ONE_RANK = 1e-4
LARGEST_SHIFT = 0.1  # of the image's width and height


class AugmentedImages(keras.utils.PyDataset):
    """Batches of randomly shifted and mirrored images, in a new random order in each epoch."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, batch_size: int, seed: int) -> None:
        super().__init__()
        self._images = images
        self._labels = labels
        self._batch_size = batch_size
        self._random = np.random.default_rng(seed)
        self._order = self._random.permutation(len(images))

    def __len__(self) -> int:
        return math.ceil(len(self._images) / self._batch_size)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        first = index * self._batch_size
        chosen = self._order[first : first + self._batch_size]
        return self._augment(self._images[chosen]), self._labels[chosen]

    def on_epoch_end(self) -> None:
        """Shuffle for the next epoch."""
        self._order = self._random.permutation(len(self._images))

    def _augment(self, images: np.ndarray) -> np.ndarray:
        count, height, width, _ = images.shape
        up, left = round(height * LARGEST_SHIFT), round(width * LARGEST_SHIFT)
        padded = np.pad(images, ((0, 0), (up, up), (left, left), (0, 0)), mode="edge")
        rows = self._random.integers(0, 2 * up + 1, (count, 1)) + np.arange(height)
        columns = self._random.integers(0, 2 * left + 1, (count, 1)) + np.arange(width)
        mirrored = self._random.random(count) < 0.5
        columns[mirrored] = columns[mirrored, ::-1]
        which = np.arange(count)[:, None, None]
        return padded[which, rows[:, :, None], columns[:, None, :]]


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "-d", "--dir", type=Path, required=True, help="directory to save the model to"
    )
    parser.add_argument(
        "--data",
        type=Path,
        help="CIFAR-10 in its Python format: the directory or cifar-10-python.tar.gz "
        "(default: $CIFAR10_DIR, else Keras' own cache)",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        default=100,
        help="passes over the data, divided among the ranks (default %(default)s)",
    )
    parser.add_argument("--batch-size", type=int, default=32, help="images per step and rank")
    parser.add_argument("--steps-per-epoch", type=int, help="end an epoch early, for trials")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers")
    parser.add_argument(
        "--require-accuracy", type=float, help="fail if the test accuracy is below this"
    )
    return parser.parse_args()


def use_own_gpu() -> None:
    """Distributed: of the node's GPUs, if any, this rank takes the one with its local number."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        gpu = gpus[hvd.local_rank() % len(gpus)]
        tf.config.set_visible_devices(gpu, "GPU")
        tf.config.experimental.set_memory_growth(gpu, True)


def make_model(image_shape: tuple[int, ...]) -> keras.Model:
    """Return the network: two blocks of two convolutions, then two dense layers."""
    model = keras.Sequential([keras.Input(image_shape)])
    for filters in (32, 64):
        model.add(layers.Conv2D(filters, 3, padding="same", activation="relu"))
        model.add(layers.Conv2D(filters, 3, activation="relu"))
        model.add(layers.MaxPooling2D(2))
        model.add(layers.Dropout(0.25))
    model.add(layers.Flatten())
    model.add(layers.Dense(512, activation="relu"))
    model.add(layers.Dropout(0.5))
    model.add(layers.Dense(CLASS_COUNT, activation="softmax"))
    return model


def compile_model(model: keras.Model) -> None:
    """Give the model its loss and its optimizer."""
    # Distributed: a step covers size() times as many images, so it may be as much longer.
    learning_rate = keras.optimizers.schedules.InverseTimeDecay(
        LEARNING_RATE_OF_ONE_RANK * hvd.size(), decay_steps=1, decay_rate=1e-6
    )
    # Distributed: gradients are averaged over all ranks before they are applied.
    optimizer = hvd.DistributedOptimizer(keras.optimizers.RMSprop(learning_rate))
    model.compile(loss="categorical_crossentropy", optimizer=optimizer, metrics=["accuracy"])


def as_tensors(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return images as numbers from 0 to 1 and labels as one-hot rows."""
    return images.astype("float32") / 255, keras.utils.to_categorical(labels, CLASS_COUNT)


def train(model: keras.Model, data: cifar10_files.Cifar10, options: argparse.Namespace) -> None:
    """Fit the model on all ranks together."""
    images, labels = as_tensors(data.train_images, data.train_labels)
    batches = AugmentedImages(images, labels, options.batch_size, options.seed + hvd.rank())
    # Distributed: each rank validates on its share of the test set.
    mine = slice(hvd.rank(), None, hvd.size())
    validation = as_tensors(data.test_images[mine], data.test_labels[mine])
    callbacks = [
        # Distributed: all ranks start from rank 0's weights, and report common metrics.
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
    ]
    if hvd.rank() == 0:
        # Distributed: only one rank writes, or files would be mixed.
        checkpoint = options.dir / "saved_models" / "checkpoint-{epoch}.h5"
        callbacks.append(keras.callbacks.ModelCheckpoint(str(checkpoint)))
    model.fit(
        batches,
        # Distributed: all ranks together make the passes that one would make alone.
        epochs=math.ceil(options.epochs / hvd.size()),
        steps_per_epoch=options.steps_per_epoch,
        validation_data=validation,
        callbacks=callbacks,
        verbose=2 if hvd.rank() == 0 else 0,
    )


def save(model: keras.Model, directory: Path) -> None:
    """Write the trained model so that a reader never sees half a file."""
    path = directory / MODEL_FILE
    unfinished = directory / f".{os.getpid()}-{MODEL_FILE}"
    try:
        model.save(unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    print(f"Saved trained model at {path}", flush=True)


def main() -> int:
    """Train, save, score."""
    options = parse_arguments()
    hvd.init()
    print(f"rank {hvd.rank()} of {hvd.size()} on {socket.gethostname()}", flush=True)
    use_own_gpu()
    keras.utils.set_random_seed(options.seed + hvd.rank())
    try:
        data = cifar10_files.load(options.data)
    except cifar10_files.DataError as error:
        print(f"rank {hvd.rank()}: {error}", file=sys.stderr)
        return 2

    model = make_model(data.train_images.shape[1:])
    compile_model(model)
    if hvd.rank() == 0:
        (options.dir / "saved_models").mkdir(parents=True, exist_ok=True)
        print(f"data set: {data.description}")
        print(f"{len(data.train_images)} train samples, {len(data.test_images)} test samples")
        print(f"Training on {hvd.size()} ranks with {model.count_params()} parameters", flush=True)
    train(model, data, options)
    if hvd.rank() != 0:
        return 0

    save(model, options.dir / "saved_models")
    images, labels = as_tensors(data.test_images, data.test_labels)
    loss, accuracy = model.evaluate(images, labels, verbose=0)
    print(f"Test loss: {loss:.4f}")
    print(f"Test accuracy: {accuracy:.4f}", flush=True)
    if options.require_accuracy is not None and accuracy < options.require_accuracy:
        print(f"the test accuracy is below {options.require_accuracy}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
