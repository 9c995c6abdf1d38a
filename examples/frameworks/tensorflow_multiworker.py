#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains with MultiWorkerMirroredStrategy and a training loop, as TensorFlow's tutorial does it.

TensorFlow finds the other workers in TF_CONFIG. The digits are those of scikit-learn's package.
"""

from __future__ import annotations

import json
import os
import socket

import numpy as np
from sklearn.datasets import load_digits

LARGEST_PIXEL = 16
WORKER_PORT = 29400
GLOBAL_BATCH = 64
STEPS = 60

if "TF_CONFIG" not in os.environ:
    # One task per node: the addresses are in the order of the ranks.
    workers = [f"{host}:{WORKER_PORT}" for host in os.environ["AZ_BATCH_HOST_LIST"].split(",")]
    os.environ["TF_CONFIG"] = json.dumps(
        {
            "cluster": {"worker": workers},
            "task": {"type": "worker", "index": int(os.environ["RANK"])},
        }
    )

import tensorflow as tf  # noqa: E402 - reads TF_CONFIG


def loss_of(model: tf.keras.Model, images: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean loss over all images, which each worker computes alone."""
    logits = model(tf.constant(images))
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.constant(labels), logits)
    return float(tf.reduce_mean(losses))


def main() -> None:
    """Train, and print the loss over all images before and after."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    task = strategy.cluster_resolver.task_id
    images, labels = load_digits(return_X_y=True)
    images = (images / LARGEST_PIXEL).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels), seed=0)
    data = data.repeat().batch(GLOBAL_BATCH)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    data = data.with_options(options)

    batches = iter(strategy.experimental_distribute_dataset(data))

    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.Input((64,)),
                tf.keras.layers.Dense(32, activation="relu"),
                tf.keras.layers.Dense(10),
            ]
        )
        optimizer = tf.keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)

    def step_of_worker(images: tf.Tensor, labels: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=GLOBAL_BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        # The optimizer adds up the gradients of all workers.
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> None:
        strategy.run(step_of_worker, args=(images, labels))

    before = loss_of(model, images, labels)
    for _ in range(STEPS):
        step(*next(batches))
    after = loss_of(model, images, labels)
    print(
        f"rank {task} of {strategy.num_replicas_in_sync} on {socket.gethostname()}:"
        f" loss {before:.6f} -> {after:.6f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
