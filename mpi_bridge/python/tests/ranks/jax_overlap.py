# SPDX-License-Identifier: Apache-2.0
"""Checks that gradients travel while the backward pass of a step compiled by JAX computes others.

The first layer waits, in its backward pass, until a gradient of a later layer has been reduced over
all ranks. If gradients travelled only after the backward pass, it would wait in vain.
"""

import os
import time

os.environ["KERAS_BACKEND"] = "jax"

import check
import jax
import keras
import numpy as np
import rows
from jax.experimental import io_callback

import horovod.keras as hvd
from mpi_bridge import engine

hvd.init()
PATIENCE = 20.0  # seconds
WIDTH = 1500  # a weight of 9 MB is a part of its own

reduced_before = [0]
reduced_in_backward = []


def reductions():
    return engine.counters()["operations"]["allreduce"]


def wait_for_a_reduction(gradient):
    deadline = time.monotonic() + PATIENCE
    while reductions() <= reduced_before[0] and time.monotonic() < deadline:
        time.sleep(0.001)
    reduced_in_backward.append(reductions() - reduced_before[0])
    return np.asarray(gradient)


@jax.custom_vjp
def held(x):
    return x


def backward(_, gradient):
    shape = jax.ShapeDtypeStruct(gradient.shape, gradient.dtype)
    return (io_callback(wait_for_a_reduction, shape, gradient),)


held.defvjp(lambda x: (x, None), backward)


class Held(keras.layers.Layer):
    def call(self, x):
        return held(x)


def check_gradients_travel_during_backward():
    keras.utils.set_random_seed(1)
    dense = [keras.layers.Dense(WIDTH, use_bias=False) for _ in range(5)]
    model = keras.Sequential(
        [keras.Input((WIDTH,)), dense[0], Held(), *dense[1:], keras.layers.Dense(1)]
    )
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(1e-4)), "mse")
    x = np.ones((8, WIDTH), "f4") * (1 + hvd.rank())
    for _ in range(3):
        reduced_before[0] = reductions()
        reduced_in_backward.clear()
        model.train_on_batch(x, np.zeros((8, 1), "f4"))
        if hvd.size() == 1:
            continue
        check.equal("backward passes that waited", len(reduced_in_backward), 1)
        check.equal("a gradient was reduced before the end", reduced_in_backward[0] > 0, True)
    for weight in model.weights:
        check.same_on_all_ranks(weight.path, keras.ops.convert_to_numpy(weight))


if __name__ == "__main__":
    rows.run(globals())
