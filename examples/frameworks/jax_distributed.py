#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains with JAX on the devices of all processes, in the form of JAX's multi-process guide.

The digits are those of scikit-learn's package.
"""

from __future__ import annotations

import socket

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits

LARGEST_PIXEL = 16
IMAGES = 1792  # of 1797: 2, 4, 8 and so on to 256 processes get equal parts


def loss_of(weights: jax.Array, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the mean loss over all images."""
    chosen = jnp.take_along_axis(jax.nn.log_softmax(images @ weights), labels[:, None], axis=1)
    return -chosen.mean()


@jax.jit
def step(weights: jax.Array, images: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the weights after a step, and the loss before it."""
    loss, gradients = jax.value_and_grad(loss_of)(weights, images, labels)
    return weights - 0.5 * gradients, loss


def main() -> None:
    """Train, and print the loss over all images before and after."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")  # for jobs without GPUs
    jax.distributed.initialize()
    process, count = jax.process_index(), jax.process_count()

    mesh = Mesh(np.array(jax.devices()), ("data",))
    by_image = NamedSharding(mesh, PartitionSpec("data"))
    images, labels = load_digits(return_X_y=True)
    mine = slice(process * IMAGES // count, (process + 1) * IMAGES // count)
    shared_images, shared_labels = (
        jax.make_array_from_process_local_data(by_image, part)
        for part in ((images[mine] / LARGEST_PIXEL).astype(np.float32), labels[mine])
    )
    weights = jax.device_put(jnp.zeros((images.shape[1], 10)), NamedSharding(mesh, PartitionSpec()))
    losses = []
    for _ in range(30):
        weights, loss = step(weights, shared_images, shared_labels)
        losses.append(float(loss))
    print(
        f"rank {process} of {count} on {socket.gethostname()}:"
        f" loss {losses[0]:.6f} -> {losses[-1]:.6f}",
        flush=True,
    )
    multihost_utils.sync_global_devices("all have printed")


if __name__ == "__main__":
    main()
