# SPDX-License-Identifier: Apache-2.0
"""Checks that gradients travel while the backward pass of Keras on PyTorch computes others.

The first layer waits, in its backward pass, until a gradient of a later layer has been reduced over
all ranks. If gradients travelled only after the backward pass, it would wait in vain.
"""

import os

os.environ["KERAS_BACKEND"] = "torch"

import check
import keras
import numpy as np
import reduction_wait
import rows
import torch
from reduction_wait import WIDTH, waited

import horovod.keras as hvd

hvd.init()

is_faulty = [False]


class Wait(torch.autograd.Function):
    @staticmethod
    def forward(_context, x):
        return x.clone()

    @staticmethod
    def backward(_context, gradient):
        reduction_wait.wait_for_a_reduction()
        if is_faulty[0]:
            raise ValueError("planted")
        return gradient


class Held(keras.layers.Layer):
    def call(self, x):
        return Wait.apply(x)


def make_model(layers=3, width=WIDTH, hold=True, **options):
    keras.utils.set_random_seed(1)
    dense = [keras.layers.Dense(width, use_bias=False) for _ in range(layers)]
    held = [Held()] if hold else []
    model = keras.Sequential(
        [keras.Input((width,)), dense[0], *held, *dense[1:], keras.layers.Dense(1)]
    )
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1e-4), **options)
    model.compile(optimizer, "mse")
    return model


def batch(width=WIDTH):
    return np.ones((8, width), "f4") * (1 + hvd.rank()), np.zeros((8, 1), "f4")


def train_on_batch(model):
    reduction_wait.begin_step()
    model.train_on_batch(*batch())


def travels_in_parts(model):
    return model.optimizer._distribution._reduction._arrivals is not None


def compare_with(what, model, other):
    for one, two in zip(model.weights, other.weights):
        arrays = (keras.ops.convert_to_numpy(each) for each in (one, two))
        check.close(f"{one.path} {what}", *arrays, 1e-6)


def compare(model):
    for weight in model.weights:
        check.same_on_all_ranks(weight.path, keras.ops.convert_to_numpy(weight))


def check_gradients_travel_during_backward():
    # In the first step nothing is known yet, so the layer would wait in vain.
    reduction_wait.PATIENCE = 0.1
    model = make_model()
    train_on_batch(model)
    reduction_wait.PATIENCE = 60.0
    for _ in range(3):
        train_on_batch(model)
        if hvd.size() > 1:
            check.equal("a gradient was reduced before backward had ended", waited[0] > 0, True)
    compare(model)


def check_a_step_may_end_before_all_its_parts_travel():
    if hvd.size() == 1:
        return
    reduction_wait.PATIENCE = 0.1
    model = make_model()
    for _ in range(2):
        train_on_batch(model)
        is_faulty[0] = True
        check.raises(ValueError, lambda: train_on_batch(model))
        is_faulty[0] = False
    train_on_batch(model)
    compare(model)


def check_training_is_the_same_as_with_one_call():
    """A loop of the script's own, which nothing tells of the backward pass, has one call."""
    reduction_wait.PATIENCE = 0.01
    for options in ({}, {"backward_passes_per_step": 2}):
        early, late = (make_model(hold=False, **options) for _ in range(2))
        x, y = batch()
        for _ in range(4):
            early.train_on_batch(x, y)
            late.zero_grad()
            keras.losses.MeanSquaredError()(torch.as_tensor(y), late(x)).backward()
            weights = late.trainable_weights
            with torch.no_grad():
                late.optimizer.apply([each.value.grad for each in weights], weights)
        check.equal("in parts", travels_in_parts(early), hvd.size() > 1 and len(options) == 0)
        check.equal("in one call", travels_in_parts(late), False)
        compare_with(f"with {options}", early, late)


def check_scaled_losses():
    reduction_wait.PATIENCE = 0.01
    scaled, plain = (make_model(hold=False) for _ in range(2))
    scaled.compile(keras.optimizers.LossScaleOptimizer(scaled.optimizer), "mse")
    for _ in range(4):
        for model in (scaled, plain):
            model.train_on_batch(*batch())
    check.equal("in parts", travels_in_parts(scaled), hvd.size() > 1)
    compare_with("scaled", scaled, plain)


def check_gradients_that_a_step_changes_are_those_that_travel():
    """A train_step of the script's own may clip gradients after backward."""
    reduction_wait.PATIENCE = 0.01
    model = make_model(hold=False)
    x, y = batch()
    for step in range(4):
        model.zero_grad()
        loss = keras.losses.MeanSquaredError()(torch.as_tensor(y), model(x))
        model.optimizer.scale_loss(loss).backward()
        weights = model.trainable_weights
        before = keras.ops.convert_to_numpy(weights[0]).copy()
        with torch.no_grad():
            if step == 2:
                weights[0].value.grad.zero_()
            model.optimizer.apply([each.value.grad for each in weights], weights)
        is_same = np.array_equal(before, keras.ops.convert_to_numpy(weights[0]))
        check.equal(f"unchanged in step {step}", is_same, step == 2)
    compare(model)


if __name__ == "__main__":
    rows.run(globals())
