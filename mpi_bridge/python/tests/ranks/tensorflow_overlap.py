# SPDX-License-Identifier: Apache-2.0
"""Checks that gradients travel while the backward pass of a compiled step computes others.

A layer behind the first dense one waits, in its backward pass, until a gradient of a later layer
has been reduced over all ranks. If gradients travelled only after the backward pass, it would wait
in vain.
"""

import check
import keras
import numpy as np
import reduction_wait
import rows
import tensorflow as tf
from reduction_wait import WIDTH, waited

import horovod.keras as hvd

# mpirun binds a rank to one core. With one thread the waiting layer would keep all others waiting.
tf.config.threading.set_inter_op_parallelism_threads(2)
hvd.init()

is_faulty = [False]


def wait_for_a_reduction(gradient):
    reduction_wait.wait_for_a_reduction()
    if is_faulty[0]:
        raise ValueError("planted")
    return np.asarray(gradient)


@tf.custom_gradient
def probe(x):
    def backward(gradient):
        held = tf.numpy_function(wait_for_a_reduction, [gradient], tf.float32, stateful=False)
        held.set_shape(gradient.shape)
        return held

    return tf.identity(x), backward


class Probe(keras.layers.Layer):
    def call(self, x):
        return probe(x)


def train_on_batch(model):
    reduction_wait.begin_step()
    x = np.ones((8, WIDTH), "f4") * (1 + hvd.rank())
    model.train_on_batch(x, np.zeros((8, 1), "f4"))


def make_model():
    keras.utils.set_random_seed(1)
    dense = [keras.layers.Dense(WIDTH, use_bias=False) for _ in range(3)]
    model = keras.Sequential(
        [keras.Input((WIDTH,)), dense[0], Probe(), *dense[1:], keras.layers.Dense(1)]
    )
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(1e-4)), "mse")
    return model


def compare(model):
    for weight in model.weights:
        check.same_on_all_ranks(weight.path, keras.ops.convert_to_numpy(weight))


def check_gradients_travel_during_backward():
    model = make_model()
    for _ in range(3):  # the first compiles
        train_on_batch(model)
    if hvd.size() > 1:
        check.equal("backward passes that waited", len(waited), 1)
        check.equal("a gradient was reduced before backward had ended", waited[0] > 0, True)
    compare(model)


def check_a_step_may_end_before_all_its_parts_travel():
    if hvd.size() == 1:
        return
    model = make_model()
    for _ in range(3):
        train_on_batch(model)
        is_faulty[0] = True
        check.raises(tf.errors.InvalidArgumentError, lambda: train_on_batch(model))
        is_faulty[0] = False
    train_on_batch(model)
    compare(model)


def check_a_rank_whose_step_did_not_fail_is_told():
    if hvd.size() == 1:
        return
    model = make_model()
    train_on_batch(model)
    is_faulty[0] = hvd.rank() == 0
    kind = tf.errors.InvalidArgumentError if hvd.rank() == 0 else tf.errors.UnknownError
    if hvd.rank() == 0:
        check.raises(kind, lambda: train_on_batch(model))
        is_faulty[0] = False
        train_on_batch(model)
    else:
        text = check.raises(kind, lambda: train_on_batch(model))
        check.equal(f"a mismatch: {text:.300}", "MismatchError" in text, True)
        train_on_batch(model)


if __name__ == "__main__":
    rows.run(globals())
