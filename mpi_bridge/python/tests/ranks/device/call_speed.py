# SPDX-License-Identifier: Apache-2.0
"""Prints the host's time for a call of torch.distributed on mpi_bridge and on torch's own backend.

The peer is NCCL on a GPU and Gloo on the host. Both reduce the same tensors in turns, in one
process. A call is an allreduce that is begun and then waited for, by its Work or by its future. On
a GPU, neither waits for the device.
"""

import os
import statistics
import time

import torch
import torch.distributed as dist
from device.training import device_of

import mpi_bridge
import mpi_bridge.torch_distributed

mpi_bridge.init()
DEVICE = device_of(mpi_bridge.local_rank())
ON_GPU = DEVICE.type == "cuda"
TURNS, CALLS = (7, 100) if ON_GPU else (3, 20)
SIZES = (8, 64 << 10, 16 << 20)
# On a GPU, in microseconds; with the backend in C++, whose calls are as short as those of NCCL's.
AIMS = {"begun_and_waited_for": 45, "through_a_future": 60}

dist.init_process_group("mpi_bridge", init_method="mpi-bridge://")
GROUPS = {"ours": None, "peer": dist.new_group(backend="nccl" if ON_GPU else "gloo")}


def begun_and_waited_for(tensor, group):
    dist.all_reduce(tensor, group=group, async_op=True).wait()


def through_a_future(tensor, group):
    dist.all_reduce(tensor, group=group, async_op=True).get_future().wait()


def at_once(tensor, group):
    dist.all_reduce(tensor, group=group)


def settle():
    if ON_GPU:
        torch.cuda.synchronize()
    mpi_bridge.barrier()


def judged(call, ours):
    aim = AIMS.get(call)
    if not ON_GPU or aim is None or os.environ.get("MPI_BRIDGE_TORCH_BACKEND") == "python":
        return ""
    return f" (aim: {aim} µs: {'met' if ours <= aim else '**missed**'})"


def main():
    for call in (at_once, begun_and_waited_for, through_a_future):
        for size in SIZES:
            tensor = torch.zeros(size // 4, device=DEVICE)
            times = {name: [] for name in GROUPS}
            for turn in range(TURNS + 1):
                for name, group in GROUPS.items():
                    settle()
                    begin = time.perf_counter()
                    for _ in range(CALLS):
                        call(tensor, group)
                    if turn > 0:
                        times[name].append((time.perf_counter() - begin) / CALLS * 1e6)
            ours, peer = (statistics.median(times[name]) for name in ("ours", "peer"))
            if dist.get_rank() == 0:
                backend = os.environ.get("MPI_BRIDGE_TORCH_BACKEND") or "whichever there is"
                print(
                    f"| host time of all_reduce {call.__name__.replace('_', ' ')}, "
                    f"{dist.get_world_size()} ranks, backend {backend}, beside torch's "
                    f"{'NCCL' if ON_GPU else 'Gloo'} | {size} B | {ours:.3g} µs | {peer:.3g} µs "
                    f"| {ours / peer:.2f}{judged(call.__name__, ours)} |",
                    flush=True,
                )
    settle()


main()
mpi_bridge.barrier()
