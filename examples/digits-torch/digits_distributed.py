#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains a network on scikit-learn's handwritten digits with PyTorch, on all ranks of a job.

The data set (1797 real images of 8x8 pixels) comes with scikit-learn, so no network is needed.
"""

from __future__ import annotations

import argparse
import socket
import sys

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

LEARNING_RATE_OF_ONE_RANK = 0.02
LARGEST_PIXEL = 16.0


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20, help="default %(default)s")
    parser.add_argument("--batch-size", type=int, default=16, help="images per step and rank")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers")
    parser.add_argument(
        "--require-accuracy", type=float, help="fail if the test accuracy is below this"
    )
    return parser.parse_args()


def load_data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return training images, test images, training labels, test labels; equal on all ranks."""
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(
        torch.tensor(images / LARGEST_PIXEL, dtype=torch.float32).view(-1, 1, 8, 8).numpy(),
        labels,
        test_size=0.2,
        stratify=labels,
        random_state=0,
    )
    return tuple(torch.from_numpy(part) for part in parts)


def make_model() -> nn.Module:
    """Return a small convolutional network."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def my_batches(count: int, batch_size: int, epoch: int, seed: int) -> list[torch.Tensor]:
    """Return this rank's batches of indices: a part of one order that all ranks shuffle alike.

    All ranks get the same number of batches, because each of them is a collective step.
    """
    generator = torch.Generator().manual_seed(seed + epoch)
    order = torch.randperm(count, generator=generator)
    per_rank = count // hvd.size()
    mine = order[hvd.rank() * per_rank : (hvd.rank() + 1) * per_rank]
    return list(mine.split(batch_size))


def train_epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    images: torch.Tensor,
    labels: torch.Tensor,
    batches: list[torch.Tensor],
) -> float:
    """Make one step for each batch; return the mean loss over all ranks."""
    model.train()
    total = torch.zeros(())
    for batch in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return hvd.allreduce(total / len(batches)).item()


@torch.no_grad()
def accuracy_of(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the share of right answers; each rank looks at its part of the images."""
    model.eval()
    mine = slice(hvd.rank(), None, hvd.size())
    right = (model(images[mine]).argmax(dim=1) == labels[mine]).sum()
    return hvd.allreduce(right, op=hvd.Sum).item() / len(labels)


def main() -> int:
    """Train and score."""
    options = parse_arguments()
    hvd.init()
    print(f"rank {hvd.rank()} of {hvd.size()} on {socket.gethostname()}", flush=True)
    torch.manual_seed(options.seed + hvd.rank())
    train_images, test_images, train_labels, test_labels = load_data()

    model = make_model()
    # A step covers size() times as many images, so it may be as much longer.
    optimizer = torch.optim.SGD(
        model.parameters(), lr=LEARNING_RATE_OF_ONE_RANK * hvd.size(), momentum=0.9
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    for epoch in range(options.epochs):
        batches = my_batches(len(train_images), options.batch_size, epoch, options.seed)
        loss = train_epoch(model, optimizer, train_images, train_labels, batches)
        if hvd.rank() == 0:
            print(f"Epoch {epoch + 1}/{options.epochs} - loss: {loss:.4f}", flush=True)

    accuracy = accuracy_of(model, test_images, test_labels)
    # Distributed: all ranks know the accuracy; one of them judges it, so that the failure that ends
    # the job is the one that has a message.
    if hvd.rank() != 0:
        return 0
    print(f"Test accuracy: {accuracy:.4f}", flush=True)
    if options.require_accuracy is not None and accuracy < options.require_accuracy:
        print(f"the test accuracy is below {options.require_accuracy}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
