# SPDX-License-Identifier: Apache-2.0
"""Of a job that torchrun starts again, one rank dies in the first attempt."""

import os

import torch
import torch.distributed as dist

import mpi_bridge.torch_distributed  # noqa: F401

dist.init_process_group("mpi_bridge")
ones = torch.ones(3)
dist.all_reduce(ones)
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
if attempt < 2 and dist.get_rank() == attempt:
    os._exit(3)
dist.all_reduce(ones)
assert ones.tolist() == [dist.get_world_size() ** 2] * 3
if dist.get_rank() == 0:
    print(f"passed on {dist.get_world_size()} ranks in attempt {attempt}", flush=True)
dist.destroy_process_group()
