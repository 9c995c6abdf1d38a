# SPDX-License-Identifier: Apache-2.0
"""Prints the time of a training step with DDP on mpi_bridge and on torch's own backend.

The peer is NCCL on a GPU and Gloo on the host. Both train the same models in turns, in one process,
and so does a model that reduces nothing.
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
# A name, layers, width, batch, and options of DDP.
CASES = (
    [
        ("8 layers of 2048, batch 512", 8, 2048, 512, {}),
        ("the same in one bucket", 8, 2048, 512, {"bucket_cap_mb": 1000}),
        ("8 layers of 2048, batch 8192", 8, 2048, 8192, {}),
        ("24 layers of 1024, batch 2048", 24, 1024, 2048, {}),
    ]
    if ON_GPU
    else [("4 layers of 256, batch 64", 4, 256, 64, {})]
)
# Ranks that share a GPU rarely have it at the same time.
TURNS, STEPS = (7, 20) if mpi_bridge.size() == 1 or not ON_GPU else (3, 5)

dist.init_process_group("mpi_bridge", init_method="mpi-bridge://")
ALONE = object()
PEER = dist.new_group(backend="nccl" if ON_GPU else "gloo")
GROUPS = {"ours": None, "peer": PEER, "alone": ALONE}


def settle():
    if ON_GPU:
        torch.cuda.synchronize()


def make_step(group, layers, width, rows, options):
    torch.manual_seed(1)
    modules = [each for _ in range(layers) for each in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*modules).to(DEVICE)
    if group is not ALONE:
        model = DistributedDataParallel(model, process_group=group, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(rows, width, device=DEVICE)

    def step():
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


def judged(ratio):
    return f" (aim: +3 %: {'met' if ratio <= 1.03 else '**missed**'})" if ON_GPU else ""


def measure(what, layers, width, rows, options):
    steps = {name: make_step(group, layers, width, rows, options) for name, group in GROUPS.items()}
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
    ours, peer, alone = (statistics.median(times[name]) for name in ("ours", "peer", "alone"))
    if dist.get_rank() == 0:
        megabytes = layers * (width + 1) * width * 4 / 1e6
        print(
            f"| step with DDP of {dist.get_world_size()} ranks, {what}, beside torch's "
            f"{'NCCL' if ON_GPU else 'Gloo'} | {megabytes:.0f} MB | {ours:.4g} ms | {peer:.4g} ms "
            f"| {100 * (ours / peer - 1):+.1f} %{judged(ours / peer)}; alone {alone:.4g} ms |",
            flush=True,
        )


for case in CASES:
    measure(*case)
mpi_bridge.barrier()
