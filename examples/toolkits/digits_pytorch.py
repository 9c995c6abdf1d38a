#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains a network on scikit-learn's handwritten digits, distributed as Batch AI's jobs were.

The script learns its rank, the number of ranks and the place to meet from its command line, as
scripts for pyTorchSettings do.
"""

from __future__ import annotations

import argparse
import socket
import sys

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

LARGEST_PIXEL = 16.0
TEST_IMAGES = 360
BATCH = 16  # images per step and rank


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="gloo", help="default %(default)s")
    parser.add_argument("--init-method", required=True, help="URL at which the ranks meet")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--epochs", type=int, default=20, help="default %(default)s")
    parser.add_argument(
        "--require-accuracy", type=float, help="fail if the test accuracy is below this"
    )
    return parser.parse_args()


def main() -> int:
    """Train and score."""
    options = parse_arguments()
    dist.init_process_group(
        options.backend,
        init_method=options.init_method,
        rank=options.rank,
        world_size=options.world_size,
    )
    rank, size = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {size} on {socket.gethostname()}", flush=True)

    data = load_digits(return_X_y=True)
    images = torch.tensor(data[0] / LARGEST_PIXEL, dtype=torch.float32)
    labels = torch.tensor(data[1])
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    mine = train[rank::size][: len(train) // size]

    torch.manual_seed(rank)  # DistributedDataParallel gives all ranks the first one's parameters
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05 * size, momentum=0.9)
    for _ in range(options.epochs):
        for batch in mine[torch.randperm(len(mine))].split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()

    with torch.no_grad():
        share = test[rank::size]
        right = (model.module(images[share]).argmax(dim=1) == labels[share]).sum()
    dist.all_reduce(right)
    dist.destroy_process_group()
    accuracy = right.item() / TEST_IMAGES
    print(f"Test accuracy: {accuracy:.4f}", flush=True)
    if options.require_accuracy is not None and accuracy < options.require_accuracy:
        print(f"the test accuracy is below {options.require_accuracy}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
