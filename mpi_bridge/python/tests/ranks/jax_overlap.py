# SPDX-License-Identifier: Apache-2.0
"""Checks that gradients travel while the backward pass of a step compiled by JAX computes others.

The first layer waits, in its backward pass, until a gradient of a later layer has been reduced over
all ranks. If gradients travelled only after the backward pass, it would wait in vain.
"""

import os

os.environ["KERAS_BACKEND"] = "jax"

import check
import jax
import keras
import numpy as np
import reduction_wait
import rows
from jax.experimental import io_callback
from reduction_wait import WIDTH, waited

import horovod.keras as hvd

hvd.init()


def wait_for_a_reduction(gradient):
    reduction_wait.wait_for_a_reduction()
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
        reduction_wait.begin_step()
        model.train_on_batch(x, np.zeros((8, 1), "f4"))
        if hvd.size() == 1:
            continue
        check.equal("backward passes that waited", len(waited), 1)
        check.equal("a gradient was reduced before the end", waited[0] > 0, True)
    for weight in model.weights:
        check.same_on_all_ranks(weight.path, keras.ops.convert_to_numpy(weight))


if __name__ == "__main__":
    rows.run(globals())
