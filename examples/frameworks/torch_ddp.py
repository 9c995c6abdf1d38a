#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains with DistributedDataParallel, in the form of PyTorch's tutorials for torchrun.

The script reads nothing of the cluster itself: init_process_group() finds the other ranks in the
environment (env://), whoever started them. The digits are those of scikit-learn's package.
"""

from __future__ import annotations

import socket

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817 - as in the tutorials
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

LARGEST_PIXEL = 16


def main() -> None:
    """Train, and print the loss over all images before and after."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()

    images, labels = load_digits(return_X_y=True)
    data = TensorDataset(
        torch.tensor(images / LARGEST_PIXEL, dtype=torch.float32), torch.tensor(labels)
    )
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    torch.manual_seed(rank)  # DDP gives all ranks the parameters of the first one.
    model = DDP(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)))
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    with torch.no_grad():
        before = loss_of(model(data.tensors[0]), data.tensors[1]).item()
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for batch, targets in loader:
            optimizer.zero_grad()
            loss_of(model(batch), targets).backward()
            optimizer.step()
    with torch.no_grad():
        after = loss_of(model(data.tensors[0]), data.tensors[1]).item()

    print(
        f"rank {rank} of {size} on {socket.gethostname()}: loss {before:.6f} -> {after:.6f}",
        flush=True,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
