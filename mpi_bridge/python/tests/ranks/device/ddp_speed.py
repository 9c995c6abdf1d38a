# SPDX-License-Identifier: Apache-2.0
"""Prints the time of a training step with DDP on mpi_bridge and on torch's own backend.

The peer is NCCL on a GPU and Gloo on the host. Both train the same model in turns, in one process.
"""

import statistics
import time

import torch
import torch.distributed as dist
from device.training import device_of
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import mpi_bridge
import mpi_bridge.torch_distributed

mpi_bridge.init()
DEVICE = device_of(mpi_bridge.local_rank())
ON_GPU = DEVICE.type == "cuda"
WIDTH, LAYERS, BATCH = (2048, 8, 512) if ON_GPU else (256, 4, 64)
# Ranks that share a GPU rarely have it at the same time.
TURNS, STEPS = (7, 20) if mpi_bridge.size() == 1 or not ON_GPU else (3, 5)

dist.init_process_group("mpi_bridge", init_method="mpi-bridge://")
GROUPS = {"ours": None, "peer": dist.new_group(backend="nccl" if ON_GPU else "gloo")}


def settle():
    if ON_GPU:
        torch.cuda.synchronize()


def make_step(group):
    torch.manual_seed(1)
    layers = [each for _ in range(LAYERS) for each in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model = DistributedDataParallel(nn.Sequential(*layers).to(DEVICE), process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(BATCH, WIDTH, device=DEVICE)

    def step():
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


def main():
    steps = {name: make_step(group) for name, group in GROUPS.items()}
    times = {name: [] for name in steps}
    for turn in range(TURNS + 1):
        for name, step in steps.items():
            settle()
            mpi_bridge.barrier()
            begin = time.perf_counter()
            for _ in range(STEPS):
                step()
            settle()
            if turn > 0:
                times[name].append((time.perf_counter() - begin) / STEPS * 1e3)
    ours, peer = (statistics.median(times[name]) for name in ("ours", "peer"))
    if dist.get_rank() == 0:
        megabytes = LAYERS * (WIDTH + 1) * WIDTH * 4 / 1e6
        print(
            f"| step with DDP of {dist.get_world_size()} ranks, beside torch's "
            f"{'NCCL' if ON_GPU else 'Gloo'} | {megabytes:.0f} MB | {ours:.4g} ms | {peer:.4g} ms "
            f"| {100 * (ours / peer - 1):+.1f} % |",
            flush=True,
        )


main()
mpi_bridge.barrier()
