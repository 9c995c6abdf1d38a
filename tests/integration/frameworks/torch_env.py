# SPDX-License-Identifier: GPL-2.0-or-later
"""Adds up one number of each rank through init_process_group's default, env://.

With --with-the-package, mpi_bridge is loaded as well, and gloo is still the backend; with
--over-the-package, mpi_bridge is the backend.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

if {"--with-the-package", "--over-the-package"} & set(sys.argv):
    import mpi_bridge.torch_distributed  # noqa: F401
BACKEND = "mpi_bridge" if "--over-the-package" in sys.argv else "gloo"


def main() -> None:
    """Print what the ranks have in total, and who this rank is."""
    dist.init_process_group(BACKEND, timeout=timedelta(seconds=60))
    rank, size = dist.get_rank(), dist.get_world_size()
    # A power of two for each rank: the sum tells whether each of them was there once.
    total = torch.tensor([2**rank])
    dist.all_reduce(total)
    local = f"{os.environ['LOCAL_RANK']}/{os.environ['LOCAL_WORLD_SIZE']}"
    group = f"{os.environ['GROUP_RANK']}/{os.environ['GROUP_WORLD_SIZE']}"
    print(
        f"rank {rank}/{size} local {local} group {group} on {os.environ['SLURMD_NODENAME']}:"
        f" sum {total.item()}, run {os.environ.get('TORCHELASTIC_RUN_ID')},"
        f" elastic {dist.is_torchelastic_launched()}",
        flush=True,
    )
    dist.barrier()
    dist.destroy_process_group()


main()
