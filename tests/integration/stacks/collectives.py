# SPDX-License-Identifier: GPL-2.0-or-later
"""Rank 2 does not come to the second collective before there is the file "go"."""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

marks = Path(os.environ["MARKS"])


def be_late() -> None:
    while not (marks / "go").exists():
        time.sleep(0.1)


dist.init_process_group("gloo")
rank = dist.get_rank()
dist.broadcast(torch.ones(10), 0)
(marks / f"there-{rank}").touch()
if rank == 2:
    be_late()
dist.all_reduce(torch.ones(4))
print(f"rank {rank} is done", flush=True)
# Gloo's threads may crash a Python that ends (github.com/pytorch/pytorch/issues/190489).
os._exit(0)
