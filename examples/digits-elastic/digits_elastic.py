#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains a network on scikit-learn's handwritten digits, and goes on when a node is lost.

Everything that must survive is in `state`; each commit is what a later step goes on from.
"""

from __future__ import annotations

import argparse
import sys
import time

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LEARNING_RATE_OF_A_RANK = 0.02
LARGEST_PIXEL = 16.0


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each epoch")
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


@hvd.elastic.run
def train(
    state: hvd.elastic.TorchState,
    images: torch.Tensor,
    labels: torch.Tensor,
    options: argparse.Namespace,
) -> None:
    """Train from where the state is to the last epoch."""
    # With fewer ranks a step sees fewer images, and must be smaller.
    for group in state.optimizer.param_groups:
        group["lr"] = LEARNING_RATE_OF_A_RANK * hvd.size()
    loader = DataLoader(
        TensorDataset(images, labels), batch_size=options.batch_size, sampler=state.sampler
    )
    while state.epoch < options.epochs:
        state.model.train()
        for number, (batch, wanted) in enumerate(loader):
            state.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(state.model(batch), wanted)
            loss.backward()
            state.optimizer.step()
            state.sampler.record_batch(number, options.batch_size)
        mean = hvd.allreduce(loss.detach()).item()
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        state.commit()
        if hvd.rank() == 0:
            text = f"Epoch {state.epoch}/{options.epochs} - {hvd.size()} ranks - loss: {mean:.4f}"
            print(text, flush=True)
        time.sleep(options.pause)


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
    torch.manual_seed(options.seed)
    train_images, test_images, train_labels, test_labels = load_data()
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE_OF_A_RANK, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(train_images, seed=options.seed)
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0)
    train(state, train_images, train_labels, options)

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
