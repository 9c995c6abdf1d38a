#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains with Keras' own distribution on JAX, in the form of Keras' guide to it.

The digits are those of scikit-learn's package.
"""

from __future__ import annotations

import os
import socket

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np
import tensorflow as tf  # only for the data: Keras takes its part of a tf.data.Dataset
from sklearn.datasets import load_digits

LARGEST_PIXEL = 16
GLOBAL_BATCH = 64


def main() -> None:
    """Train, and print the loss over all images before and after."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")  # for jobs without GPUs
    keras.distribution.initialize()
    keras.distribution.set_distribution(keras.distribution.DataParallel())

    images, labels = load_digits(return_X_y=True)
    images = (images / LARGEST_PIXEL).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((images, labels))
    data = data.shuffle(len(labels), seed=0).batch(GLOBAL_BATCH, drop_remainder=True)
    model = keras.Sequential(
        [keras.Input((64,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(10)]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    before = loss_of(model, images, labels)
    model.fit(data, epochs=4, verbose=0)
    after = loss_of(model, images, labels)
    print(
        f"rank {jax.process_index()} of {jax.process_count()} on {socket.gethostname()}:"
        f" loss {before:.6f} -> {after:.6f}",
        flush=True,
    )
    jax.distributed.shutdown()


def loss_of(model: keras.Model, images: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean loss over all images, which each process computes alone."""
    hidden, hidden_bias, out, out_bias = (np.asarray(value) for value in model.get_weights())
    logits = np.maximum(images @ hidden + hidden_bias, 0) @ out + out_bias
    logits -= logits.max(axis=1, keepdims=True)
    chosen = logits[np.arange(len(labels)), labels]
    return float(np.mean(np.log(np.exp(logits).sum(axis=1)) - chosen))


if __name__ == "__main__":
    main()
