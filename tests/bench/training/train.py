# SPDX-License-Identifier: GPL-2.0-or-later
"""One rank of the training benchmark: times steps with one library, and the computation alone.

Prints a line of JSON for each model on rank 0. Started by `run`, for which it is; the ranks'
launcher is Open MPI's.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import time
from typing import Callable

import torch
from torch import nn

BATCH = 32
FEATURES = 1856
LAYERS = 8
SEED = 1
Step = Callable[[], None]


def large_model() -> tuple[nn.Module, torch.Tensor]:
    """Return a network with 110 MB of gradients, and a batch for it."""
    layers: list[nn.Module] = []
    for _ in range(LAYERS):
        layers += [nn.Linear(FEATURES, FEATURES), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(FEATURES, 10)), torch.randn(BATCH, FEATURES)


def small_model() -> tuple[nn.Module, torch.Tensor]:
    """Return the digits' network of the examples (0.15 MB of gradients), and a batch."""
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )
    return model, torch.randn(BATCH, 1, 8, 8)


MODELS = {"large": large_model, "small": small_model}


def training_step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor) -> Step:
    """Return a step of training on the batch."""
    labels = torch.randint(10, (len(batch),))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch), labels).backward()
        optimizer.step()

    return step


def rank_and_size() -> tuple[int, int]:
    """Return this process's number and their count, as Open MPI's launcher says."""
    return int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])


class HorovodApi:
    """horovod.torch: ours, or where the path has it, the real one."""

    def __init__(self, _meeting: str) -> None:
        import horovod.torch as hvd

        self._hvd = hvd
        hvd.init()

    def distribute(
        self, model: nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        self._hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        wrap = self._hvd.DistributedOptimizer
        options: dict[str, bool] = {}
        # DistributedDataParallel is measured with this option too; the real Horovod has none.
        if "gradient_as_bucket_view" in inspect.signature(wrap).parameters:
            options["gradient_as_bucket_view"] = True
        return model, wrap(optimizer, named_parameters=model.named_parameters(), **options)

    def barrier(self) -> None:
        self._hvd.allreduce(torch.zeros(1), name="barrier")


class TorchDdp:
    """DistributedDataParallel on one of torch.distributed's backends."""

    def __init__(self, backend: str, meeting: str) -> None:
        import torch.distributed as dist

        self._dist = dist
        if backend == "mpi_bridge":
            import mpi_bridge.torch_distributed  # noqa: F401

            dist.init_process_group(backend)
        else:
            rank, size = rank_and_size()
            dist.init_process_group(backend, init_method=meeting, rank=rank, world_size=size)

    def distribute(
        self, model: nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        wrapped = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
        return wrapped, optimizer

    def barrier(self) -> None:
        self._dist.barrier()


def library_of(candidate: str, meeting: str) -> HorovodApi | TorchDdp:
    """Return the library to be measured, ready."""
    if candidate == "ddp_ours":
        return TorchDdp("mpi_bridge", meeting)
    if candidate == "ddp_gloo":
        return TorchDdp("gloo", meeting)
    return HorovodApi(meeting)


def timed(step: Step, barrier: Step, count: int) -> list[float]:
    """Return the seconds of each of `count` steps that all ranks begin together."""
    barrier()
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return times


def measure(library: HorovodApi | TorchDdp, name: str, seconds: float, warm_up: int) -> dict:
    """Time the model's steps alone and with the library, in turns of a few steps."""
    torch.manual_seed(SEED)
    model, batch = MODELS[name]()
    alone = training_step(model, torch.optim.SGD(model.parameters(), lr=1e-4), batch)
    torch.manual_seed(SEED)
    model, _ = MODELS[name]()
    megabytes = sum(p.numel() * p.element_size() for p in model.parameters()) / 1e6
    together = training_step(
        *library.distribute(model, torch.optim.SGD(model.parameters(), lr=1e-4)), batch
    )
    first = timed(alone, library.barrier, 3)
    timed(together, library.barrier, warm_up)
    # The same number on all ranks, though each has its own clock: of rank 0's making.
    count = torch.tensor([max(3.0, min(100.0, seconds / 6 / min(first)))])
    count = int(shared(library, count))
    compute, steps = [], []
    for _ in range(3):
        compute += timed(alone, library.barrier, count)
        # The first steps after a pause find cold caches and a plan that was left.
        steps += timed(together, library.barrier, count + 2)[2:]
    return {"model": name, "megabytes": megabytes, "compute": compute, "steps": steps}


def shared(library: HorovodApi | TorchDdp, value: torch.Tensor) -> float:
    """Return the mean of all ranks' values."""
    if isinstance(library, TorchDdp):
        library._dist.all_reduce(value)
        return value.item() / library._dist.get_world_size()
    return library._hvd.allreduce(value, name="count").item()


def main() -> None:
    """Measure one library."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("candidate")
    parser.add_argument("--models", default="large,small")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each model")
    parser.add_argument("--warm-up", type=int, default=12, help="steps")
    parser.add_argument("--meeting", default="", help="where Gloo's ranks meet: file://PATH")
    arguments = parser.parse_args()
    rank, _ = rank_and_size()
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % os.cpu_count()]})
    torch.set_num_threads(1)
    library = library_of(arguments.candidate, arguments.meeting)
    for name in arguments.models.split(","):
        found = measure(library, name, arguments.seconds, arguments.warm_up)
        if rank == 0:
            print(json.dumps(found), flush=True)
    library.barrier()


if __name__ == "__main__":
    main()
