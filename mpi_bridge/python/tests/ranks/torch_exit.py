# SPDX-License-Identifier: Apache-2.0
"""One rank that ends without having ended its group, after a future; prints the time of its end."""

import sys
import time

import torch
import torch.distributed as dist

import mpi_bridge.torch_distributed  # noqa: F401

dist.init_process_group("mpi_bridge", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()
print(time.time(), flush=True)
