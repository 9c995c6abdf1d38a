#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains with Hugging Face Accelerate, in the form of Accelerate's own documentation.

The job starts one task per rank, so `accelerate launch` has nothing to do. The digits are those of
scikit-learn's package.
"""

from __future__ import annotations

import argparse
import socket

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LARGEST_PIXEL = 16


def main() -> None:
    """Train, and print the loss over all images before and after."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu", action="store_true", help="do not use GPUs")
    options = parser.parse_args()

    accelerator = Accelerator(cpu=options.cpu)
    set_seed(0)
    images, labels = load_digits(return_X_y=True)
    data = TensorDataset(
        torch.tensor(images / LARGEST_PIXEL, dtype=torch.float32), torch.tensor(labels)
    )
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    # Accelerate gives each rank its own batches of the shuffled data.
    model, optimizer, loader = accelerator.prepare(
        model, optimizer, DataLoader(data, batch_size=32, shuffle=True)
    )
    loss_of = nn.CrossEntropyLoss()
    everything = [tensor.to(accelerator.device) for tensor in data.tensors]

    with torch.no_grad():
        before = loss_of(model(everything[0]), everything[1]).item()
    for _ in range(4):
        for batch, targets in loader:
            optimizer.zero_grad()
            accelerator.backward(loss_of(model(batch), targets))
            optimizer.step()
    with torch.no_grad():
        after = loss_of(model(everything[0]), everything[1]).item()

    print(
        f"rank {accelerator.process_index} of {accelerator.num_processes}"
        f" on {socket.gethostname()}: loss {before:.6f} -> {after:.6f}",
        flush=True,
    )
    accelerator.end_training()


if __name__ == "__main__":
    main()
