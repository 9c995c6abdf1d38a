# SPDX-License-Identifier: GPL-2.0-or-later
"""One of the two ranks of the benchmark of messages: send and recv of torch.distributed.

Prints a line of JSON for each size on rank 0. Started by `run`, under mpirun or srun.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist

_WARM_UP_BYTES = 4 << 20
_BATCHES = 5


def rank_and_size() -> tuple[int, int]:
    """Return this process's number and their count, as the launcher says."""
    for rank, size in (
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("SLURM_PROCID", "SLURM_NTASKS"),
    ):
        if rank in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    raise SystemExit("exchange.py is started by mpirun or srun")


def there_and_back(rank: int, tensor: torch.Tensor) -> None:
    """Send the tensor to the other rank, which sends it back."""
    other = 1 - rank
    if rank == 0:
        dist.send(tensor, other)
        dist.recv(tensor, other)
    else:
        dist.recv(tensor, other)
        dist.send(tensor, other)


def timed(rank: int, tensor: torch.Tensor, count: int) -> float:
    """Return the seconds of one way, the mean of `count` exchanges."""
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(count):
        there_and_back(rank, tensor)
    return (time.perf_counter() - begin) / count / 2


def measure(rank: int, size: int, seconds: float) -> float:
    """Return the seconds of one way: the median of some batches that last so long together."""
    tensor = torch.zeros(size, dtype=torch.uint8)
    warm_up = max(2, min(20, _WARM_UP_BYTES // size))
    trial = torch.tensor([timed(rank, tensor, warm_up)], dtype=torch.float64)
    # The same count on both ranks: of rank 0's making.
    dist.broadcast(trial, 0)
    count = max(3, min(2000, int(seconds / _BATCHES / 2 / trial.item())))
    return statistics.median(timed(rank, tensor, count) for _ in range(_BATCHES))


def main() -> None:
    """Measure one library."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("backend", choices=["mpi_bridge", "gloo"])
    parser.add_argument("--sizes", required=True, help="bytes, with commas between them")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each size")
    parser.add_argument("--meeting", default="", help="where Gloo's ranks meet: file://PATH")
    arguments = parser.parse_args()
    rank, size = rank_and_size()
    torch.set_num_threads(1)
    if arguments.backend == "mpi_bridge":
        import mpi_bridge.torch_distributed  # noqa: F401

        dist.init_process_group("mpi_bridge")
    else:
        dist.init_process_group("gloo", init_method=arguments.meeting, rank=rank, world_size=size)
    for each in map(int, arguments.sizes.split(",")):
        seconds = measure(rank, each, arguments.seconds)
        if rank == 0:
            print(json.dumps({"bytes": each, "seconds": seconds}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
