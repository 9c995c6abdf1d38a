#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains a network on scikit-learn's handwritten digits with TensorFlow, in one process."""

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
    parser.add_argument("--epochs", type=int, default=5, help="default %(default)s")
    parser.add_argument(
        "--require-accuracy", type=float, help="fail if the test accuracy is below this"
    )
    return parser.parse_args()


def main() -> int:
    """Train and score."""
    options = parse_arguments()
    tf.random.set_seed(0)
    images, labels = load_digits(return_X_y=True)
    images = tf.constant(images / LARGEST_PIXEL, tf.float32)
    labels = tf.constant(labels, tf.int32)
    train = tf.data.Dataset.from_tensor_slices((images[TEST_IMAGES:], labels[TEST_IMAGES:]))
    weights = tf.Variable(tf.zeros([64, 10]))
    bias = tf.Variable(tf.zeros([10]))

    @tf.function
    def step(batch: tf.Tensor, expected: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            scores = batch @ weights + bias
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=expected, logits=scores)
            )
        gradients = tape.gradient(loss, [weights, bias])
        weights.assign_sub(LEARNING_RATE * gradients[0])
        bias.assign_sub(LEARNING_RATE * gradients[1])

    for _ in range(options.epochs):
        for batch, expected in train.shuffle(len(labels), seed=0).batch(BATCH):
            step(batch, expected)

    guesses = tf.argmax(images[:TEST_IMAGES] @ weights + bias, axis=1, output_type=tf.int32)
    accuracy = float(tf.reduce_mean(tf.cast(guesses == labels[:TEST_IMAGES], tf.float32)))
    print(f"Test accuracy: {accuracy:.4f}", flush=True)
    if options.require_accuracy is not None and accuracy < options.require_accuracy:
        print(f"the test accuracy is below {options.require_accuracy}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
