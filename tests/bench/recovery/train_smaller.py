#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains in steps with torch.distributed on mpi_bridge, and goes on without ranks that are lost.

train_smaller.py PLACE HOST PORT, with RANK and WORLD_SIZE: the ranks meet in a store there.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from mpi_bridge.errors import PeerLostError
from mpi_bridge.torch_distributed import lost_ranks

place, host, port = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
store = dist.TCPStore(host, port, is_master=False)
rank, size = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
dist.init_process_group("mpi_bridge", store=store, rank=rank, world_size=size)
gradient = torch.ones(1 << 16)
step = 0
while not (place / "stop").exists():
    try:
        dist.all_reduce(gradient)
    except PeerLostError as error:
        dist.shrink_group(lost_ranks(error))
        gradient = torch.ones(1 << 16)
        continue
    gradient /= dist.get_world_size()
    step += 1
    if dist.get_rank() == 0:
        with (place / "times").open("a") as times:
            times.write(f"{time.time()} {dist.get_world_size()} {step}\n")
    time.sleep(0.05)
os._exit(0)  # ranks see the end at different steps
