# SPDX-License-Identifier: Apache-2.0
"""One rank that leaves without having ended its group, after a future; says who outlives that."""

import sys

import torch
import torch.distributed as dist

import mpi_bridge
from mpi_bridge.torch_distributed import cpp_backend

LONG_SECONDS = 60.0

dist.init_process_group("mpi_bridge", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()
mpi_bridge.shutdown()
print("all threads have ended" if cpp_backend.module().await_threads(LONG_SECONDS) else "some live")
