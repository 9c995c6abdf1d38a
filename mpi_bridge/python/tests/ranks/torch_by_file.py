# SPDX-License-Identifier: Apache-2.0
"""Ranks that a plain loop has started meet in a file: torch_by_file.py FILE RANK SIZE."""

import sys

import torch
import torch.distributed as dist

import mpi_bridge
import mpi_bridge.torch_distributed

place, rank, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for meeting in range(2):
    dist.init_process_group(
        "mpi_bridge", init_method=f"file://{place}.{meeting}", rank=rank, world_size=size
    )
    tensor = torch.full((3,), float(rank))
    dist.all_reduce(tensor)
    assert tensor.tolist() == [size * (size - 1) / 2] * 3, tensor
    assert (mpi_bridge.rank(), mpi_bridge.size()) == (rank, size)
    assert mpi_bridge.local_size() == size
    dist.destroy_process_group()
    # The next one is a new meeting.
    mpi_bridge.shutdown()
print(f"passed on rank {rank}", flush=True)
