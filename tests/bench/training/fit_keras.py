# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains the large model of train.py with model.fit() of Keras, for its timeline.

usage: MPI_BRIDGE_TIMELINE=/tmp/step mpirun -n 2 python3 fit_keras.py tensorflow|torch|jax
"""

import os
import sys

if sys.argv[1:] not in (["tensorflow"], ["torch"], ["jax"]):
    sys.exit(f"fit_keras: one of tensorflow, torch and jax is needed, not {sys.argv[1:]}")
os.environ["KERAS_BACKEND"] = sys.argv[1]

import horovod.keras as hvd
import keras
import numpy as np

BATCH, FEATURES, LAYERS, STEPS = 32, 1856, 8, 30


def main() -> None:
    """Train for two epochs."""
    hvd.init()
    keras.utils.set_random_seed(1)
    hidden = [keras.layers.Dense(FEATURES, activation="relu") for _ in range(LAYERS)]
    model = keras.Sequential([keras.Input((FEATURES,)), *hidden, keras.layers.Dense(10)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(1e-4)), "mse")
    samples = np.random.default_rng(1).random((BATCH * STEPS, FEATURES), "f4")
    targets = np.zeros((BATCH * STEPS, 10), "f4")
    model.fit(samples, targets, batch_size=BATCH, epochs=2, verbose=0)
    hvd.shutdown()


main()
