#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains with DeepSpeed's ZeRO stage 1, in the form of DeepSpeed's own documentation.

The job starts one task per rank, so the command `deepspeed` has nothing to do. The digits are those
of scikit-learn's package.
"""

from __future__ import annotations

import socket

import deepspeed
import torch
from deepspeed import comm
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

LARGEST_PIXEL = 16
CONFIGURATION = {
    "train_micro_batch_size_per_gpu": 32,
    # DeepSpeed's own Adam would be compiled first.
    "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
    "zero_optimization": {"stage": 1},
}


def main() -> None:
    """Train, and print the loss over all images before and after."""
    deepspeed.init_distributed()
    images, labels = load_digits(return_X_y=True)
    data = TensorDataset(
        torch.tensor(images / LARGEST_PIXEL, dtype=torch.float32), torch.tensor(labels)
    )
    torch.manual_seed(comm.get_rank())  # DeepSpeed gives all ranks the first one's parameters.
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    engine, _, loader, _ = deepspeed.initialize(
        model=model,
        model_parameters=model.parameters(),
        training_data=data,
        config=CONFIGURATION,
    )
    loss_of = nn.CrossEntropyLoss()
    everything = [tensor.to(engine.device) for tensor in data.tensors]

    with torch.no_grad():
        before = loss_of(engine(everything[0]), everything[1]).item()
    for _ in range(4):
        for batch, targets in loader:
            loss = loss_of(engine(batch.to(engine.device)), targets.to(engine.device))
            engine.backward(loss)
            engine.step()
    with torch.no_grad():
        after = loss_of(engine(everything[0]), everything[1]).item()

    print(
        f"rank {comm.get_rank()} of {comm.get_world_size()} on {socket.gethostname()}:"
        f" loss {before:.6f} -> {after:.6f}",
        flush=True,
    )
    engine.destroy()
    comm.destroy_process_group()


if __name__ == "__main__":
    main()
