#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains on scikit-learn's digits, and goes on from its last checkpoint when it is run again.

It writes a checkpoint after every epoch, and at once when SIGUSR1 or SIGTERM says that the job will
be ended. It then ends with exit code 75.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

import mpi_bridge.torch_distributed  # noqa: F401 - not needed where the package is installed by pip
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler, TensorDataset

RUN_ME_AGAIN = 75  # EX_TEMPFAIL of sysexits.h
LARGEST_PIXEL = 16.0

asked_to_stop = False


def stop_soon(_number: int, _frame: object) -> None:
    """Remember the signal; the training loop looks at it after each step."""
    global asked_to_stop
    asked_to_stop = True


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checkpoint", type=Path, required=True, help="the file to write")
    parser.add_argument("--epochs", type=int, default=10, help="default %(default)s")
    parser.add_argument("--batch-size", type=int, default=16, help="images per step and rank")
    parser.add_argument("--pause", type=float, default=0, help="seconds to wait after each step")
    return parser.parse_args()


def save(path: Path, state: dict[str, object]) -> None:
    """Replace the checkpoint, so that there is always a whole one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def all_agree_to_stop() -> bool:
    """Return whether a rank has had the signal, so that all ranks stop after the same step."""
    asked = torch.tensor(int(asked_to_stop))
    dist.all_reduce(asked, op=dist.ReduceOp.MAX)
    return bool(asked.item())


def main() -> int:
    """Train from where the last attempt stopped."""
    # As early as possible: without a handler these signals end the process.
    signal.signal(signal.SIGUSR1, stop_soon)
    signal.signal(signal.SIGTERM, stop_soon)
    options = parse_arguments()
    dist.init_process_group("mpi_bridge")
    rank = dist.get_rank()
    images, labels = load_digits(return_X_y=True)
    data = TensorDataset(
        torch.tensor(images / LARGEST_PIXEL, dtype=torch.float32), torch.tensor(labels)
    )
    sampler = DistributedSampler(data, drop_last=True)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.05, momentum=0.9)

    epoch = step = 0
    if options.checkpoint.exists():
        state = torch.load(options.checkpoint, map_location="cpu", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        epoch, step = state["epoch"], state["step"]
    if rank == 0:
        print(f"starts at epoch {epoch}, step {step}", flush=True)

    def checkpoint(epoch: int, step: int) -> None:
        if rank == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save(options.checkpoint, state | {"epoch": epoch, "step": step})
        dist.barrier()

    while epoch < options.epochs:
        sampler.set_epoch(epoch)  # the order of the images depends on the epoch only
        batches = torch.tensor(list(sampler)).split(options.batch_size)
        loss = torch.zeros(())
        while step < len(batches):
            pixels, targets = data[batches[step]]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(parallel(pixels), targets)
            loss.backward()
            optimizer.step()
            step += 1
            if all_agree_to_stop():
                checkpoint(epoch, step)
                if rank == 0:
                    print(f"stops after epoch {epoch}, step {step}", flush=True)
                return RUN_ME_AGAIN
            time.sleep(options.pause)
        epoch, step = epoch + 1, 0
        checkpoint(epoch, step)
        if rank == 0:
            print(f"Epoch {epoch}/{options.epochs} - loss: {loss.item():.4f}", flush=True)
    if rank == 0:
        print("has finished", flush=True)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
