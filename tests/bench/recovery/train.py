#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains in steps with torch.distributed on Gloo, from a checkpoint; rank 0 notes when each was."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

place = Path(sys.argv[1])
checkpoint = place / "checkpoint"
dist.init_process_group("gloo")
rank = dist.get_rank()
step = int(checkpoint.read_text()) if checkpoint.exists() else 0
start = os.getpid()
gradient = torch.ones(1 << 16)
while not (place / "stop").exists():
    dist.all_reduce(gradient)
    gradient /= dist.get_world_size()
    step += 1
    if rank == 0:
        checkpoint.write_text(str(step))
        with (place / "times").open("a") as times:
            times.write(f"{time.time()} {start} {step}\n")
    time.sleep(0.05)
os._exit(0)  # Gloo may crash while Python ends
