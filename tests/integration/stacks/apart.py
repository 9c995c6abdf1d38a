# SPDX-License-Identifier: GPL-2.0-or-later
"""The last rank waits for data, and the others for the last one.

With ONCE, only the first start of the job does so.
"""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

marks = Path(os.environ["MARKS"])
fifo = marks / "fifo"


def load() -> None:
    os.mkfifo(fifo)
    (marks / f"there-{rank}").touch()
    with fifo.open("r+b", buffering=0) as queue:
        queue.read(1)


def step() -> None:
    (marks / f"there-{rank}").touch()
    dist.all_reduce(torch.ones(4))


dist.init_process_group("gloo")
rank = dist.get_rank()
if not ("ONCE" in os.environ and fifo.exists()) and rank == dist.get_world_size() - 1:
    load()
step()
print(f"rank {rank} is done", flush=True)
time.sleep(1)  # so that this is seen while the ranks run
# Gloo's threads may crash a Python that ends (github.com/pytorch/pytorch/issues/190489).
os._exit(0)
