#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains on scikit-learn's handwritten digits with TensorFlow's ParameterServerStrategy.

Every task of the job runs this script. TF_CONFIG says which task it is: the chief gives the orders,
the workers compute gradients, and the parameter servers hold the weights.
"""

from __future__ import annotations

import argparse
import sys

import tensorflow as tf
from sklearn.datasets import load_digits

LARGEST_PIXEL = 16.0
TEST_IMAGES = 360
BATCH = 32
LEARNING_RATE = 0.2


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400, help="default %(default)s")
    parser.add_argument(
        "--require-accuracy", type=float, help="fail if the test accuracy is below this"
    )
    return parser.parse_args()


def train(resolver: tf.distribute.cluster_resolver.ClusterResolver, steps: int) -> float:
    """Train on the workers, and return the accuracy on images that they have not seen."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    images, labels = load_digits(return_X_y=True)
    images = (images / LARGEST_PIXEL).astype("float32")
    labels = labels.astype("int32")
    with strategy.scope():
        weights = tf.Variable(tf.zeros([64, 10]))
        bias = tf.Variable(tf.zeros([10]))

    def batches() -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices((images[TEST_IMAGES:], labels[TEST_IMAGES:]))
        return data.shuffle(len(labels)).repeat().batch(BATCH)

    @tf.function
    def step(iterator: tf.data.Iterator) -> None:
        batch, expected = next(iterator)
        with tf.GradientTape() as tape:
            scores = batch @ weights + bias
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=expected, logits=scores)
            )
        gradients = tape.gradient(loss, [weights, bias])
        weights.assign_sub(LEARNING_RATE * gradients[0])
        bias.assign_sub(LEARNING_RATE * gradients[1])

    iterator = iter(coordinator.create_per_worker_dataset(batches))
    for _ in range(steps):
        coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    guesses = tf.argmax(images[:TEST_IMAGES] @ weights + bias, axis=1, output_type=tf.int32)
    return float(tf.reduce_mean(tf.cast(guesses == labels[:TEST_IMAGES], tf.float32)))


def main() -> int:
    """Do the part of this task."""
    options = parse_arguments()
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    if resolver.task_type in ("worker", "ps"):
        server = tf.distribute.Server(
            resolver.cluster_spec(),
            job_name=resolver.task_type,
            task_index=resolver.task_id,
            protocol="grpc",
        )
        server.join()  # until the job ends
    accuracy = train(resolver, options.steps)
    print(f"Test accuracy: {accuracy:.4f}", flush=True)
    if options.require_accuracy is not None and accuracy < options.require_accuracy:
        print(f"the test accuracy is below {options.require_accuracy}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
