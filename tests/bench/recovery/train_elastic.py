#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains in steps with elastic Horovod, and commits each; rank 0 notes when, and of how many."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import horovod.torch as hvd
import torch

place = Path(sys.argv[1])
hvd.init()
model = torch.nn.Linear(256, 256, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
inputs = torch.ones(8, 256)


@hvd.elastic.run
def train(state: hvd.elastic.TorchState) -> None:
    """Train until a file says that it is enough. All ranks must see it at the same step."""
    stop = False
    while not stop:
        optimizer.zero_grad()
        model(inputs).mean().backward()
        optimizer.step()
        state.step += 1
        if hvd.rank() == 0:
            with (place / "times").open("a") as times:
                times.write(f"{time.time()} {os.getpid()}-{hvd.size()} {state.step}\n")
        time.sleep(0.05)
        state.commit()
        stop = hvd.broadcast_object((place / "stop").exists(), 0)


train(hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0))
