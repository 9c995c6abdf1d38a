#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains with Lightning on two nodes, in the form of Lightning's own documentation.

`devices` is the number of tasks that the job has on each node. The digits are those of
scikit-learn's package.
"""

from __future__ import annotations

import argparse
import socket

import lightning as L  # noqa: N812 - as in Lightning's documentation
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LARGEST_PIXEL = 16


class Digits(L.LightningModule):
    """A small network and how it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def loss_of(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the mean loss over these images."""
        return nn.functional.cross_entropy(self.layers(images), labels)

    def training_step(self, batch: list[torch.Tensor], batch_index: int) -> torch.Tensor:
        """Return the loss of a batch; Lightning does the rest."""
        del batch_index
        return self.loss_of(*batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return what changes the weights."""
        return torch.optim.Adam(self.parameters(), lr=0.01)


class FailingRank(L.Callback):
    """Raises an error on one rank after some steps, to show how a job ends then."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def on_train_batch_end(self, trainer: L.Trainer, *_: object) -> None:
        """Fail if this is the rank."""
        if trainer.global_rank == self.rank and trainer.global_step == 3:
            raise RuntimeError(f"rank {self.rank} fails as it was asked to")


def main() -> None:
    """Train, and print the loss over all images before and after."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-nodes", type=int, default=2, help="default %(default)s")
    parser.add_argument("--devices", type=int, default=2, help="tasks per node; %(default)s")
    parser.add_argument("--failing-rank", type=int, help="a rank that raises an error")
    options = parser.parse_args()

    images, labels = load_digits(return_X_y=True)
    data = TensorDataset(
        torch.tensor(images / LARGEST_PIXEL, dtype=torch.float32), torch.tensor(labels)
    )
    L.seed_everything(0)
    model = Digits()
    with torch.no_grad():
        before = model.loss_of(*data.tensors).item()

    trainer = L.Trainer(
        accelerator="cpu",
        strategy="ddp",
        num_nodes=options.num_nodes,
        devices=options.devices,
        max_epochs=4,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        callbacks=[] if options.failing_rank is None else [FailingRank(options.failing_rank)],
    )
    # Lightning gives each rank its own part of the shuffled data.
    trainer.fit(model, DataLoader(data, batch_size=32, shuffle=True))

    with torch.no_grad():
        after = model.loss_of(*data.tensors).item()
    print(
        f"rank {trainer.global_rank} of {trainer.world_size} on {socket.gethostname()}:"
        f" loss {before:.6f} -> {after:.6f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
