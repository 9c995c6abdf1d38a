#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains a network on scikit-learn's handwritten digits with DistributedDataParallel.

A script of plain torch.distributed: no MASTER_ADDR, no torchrun, one more word in
init_process_group.
"""

from __future__ import annotations

import argparse
import socket
import sys

import mpi_bridge.torch_distributed  # noqa: F401 - not needed where the package is installed by pip
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

LARGEST_PIXEL = 16.0


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15, help="default %(default)s")
    parser.add_argument("--batch-size", type=int, default=16, help="images per step and rank")
    parser.add_argument(
        "--require-accuracy", type=float, help="fail if the test accuracy is below this"
    )
    return parser.parse_args()


def load_data() -> tuple[TensorDataset, TensorDataset]:
    """Return the images to train and to test with; equal on all ranks."""
    images, labels = load_digits(return_X_y=True)
    scaled = torch.tensor(images / LARGEST_PIXEL, dtype=torch.float32).view(-1, 1, 8, 8)
    train, test = train_test_split(
        range(len(labels)), test_size=0.2, stratify=labels, random_state=0
    )
    targets = torch.tensor(labels)
    return TensorDataset(scaled[train], targets[train]), TensorDataset(scaled[test], targets[test])


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


@torch.no_grad()
def accuracy_of(model: nn.Module, data: TensorDataset) -> float:
    """Return the share of right answers; each rank looks at its part of the images."""
    images, labels = data.tensors
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    right = (model(images[mine]).argmax(dim=1) == labels[mine]).sum()
    dist.all_reduce(right)
    return right.item() / len(labels)


def main() -> int:
    """Train and score."""
    options = parse_arguments()
    dist.init_process_group("mpi_bridge")
    rank, size = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {size} on {socket.gethostname()}", flush=True)
    train_data, test_data = load_data()
    sampler = DistributedSampler(train_data, drop_last=True)
    loader = DataLoader(train_data, batch_size=options.batch_size, sampler=sampler)

    torch.manual_seed(rank)  # DistributedDataParallel gives all ranks the first one's parameters
    model = DistributedDataParallel(make_model(), gradient_as_bucket_view=True)
    # A step covers `size` times as many images, so it may be as much longer.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02 * size, momentum=0.9)
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros(())
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total, op=dist.ReduceOp.AVG)
        if rank == 0:
            mean = total.item() / len(loader)
            print(f"Epoch {epoch + 1}/{options.epochs} - loss: {mean:.4f}", flush=True)

    accuracy = accuracy_of(model.module, test_data)
    dist.destroy_process_group()
    # All ranks know the accuracy; one of them judges it.
    if rank != 0:
        return 0
    print(f"Test accuracy: {accuracy:.4f}", flush=True)
    if options.require_accuracy is not None and accuracy < options.require_accuracy:
        print(f"the test accuracy is below {options.require_accuracy}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
