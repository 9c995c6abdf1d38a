# SPDX-License-Identifier: Apache-2.0
"""MPI_BRIDGE_CHECK_REPLICAS with DistributedDataParallel over mpi_bridge.

Breaks when models that differ are not errors, when equal ones are, or when ranks that do not make
the same passes wait for each other.
"""

import os

os.environ["MPI_BRIDGE_CHECK_REPLICAS"] = "2"

import check
import rows
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch_default_group import RANK, SIZE

import mpi_bridge

LAST = SIZE - 1


def make(**options):
    torch.manual_seed(RANK)  # DistributedDataParallel takes rank 0's parameters
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    wrapped = DistributedDataParallel(model, **options)
    return wrapped, torch.optim.SGD(wrapped.parameters(), lr=0.1)


def take_steps(model, optimizer, count):
    for _ in range(count):
        optimizer.zero_grad()
        with model.no_sync():
            model(torch.full((2, 3), RANK + 0.5)).square().mean().backward()
        model(torch.full((2, 3), RANK + 1.0)).square().mean().backward()
        optimizer.step()


def check_equal_models_are_no_error():
    model, optimizer = make()
    take_steps(model, optimizer, 6)
    if RANK == 0:
        with torch.no_grad():  # a pass that only one rank makes
            model(torch.ones(2, 3))
        model.eval()
        model(torch.ones(2, 3))


def check_a_difference_is_named_with_its_ranks():
    for group in (dist.group.WORLD, dist.new_group(list(range(SIZE)))):
        model, optimizer = make(process_group=group)
        take_steps(model, optimizer, 1)
        if RANK == LAST:
            with torch.no_grad():
                model.module[2].bias[1] += 1e-3
        text = check.raises(mpi_bridge.MismatchError, lambda: take_steps(model, optimizer, 2))  # noqa: B023
        check.equal(text, '"2.bias" (float32, (2,)) is not the same on all ranks' in text, True)
        check.equal(text, f"another on [{LAST}]" in text, True)


def check_ranks_with_different_intervals_are_an_error():
    if SIZE == 1:
        return
    dist.destroy_process_group()
    for number in ("0", "3"):
        os.environ["MPI_BRIDGE_CHECK_REPLICAS"] = number if RANK == LAST else "2"
        text = check.raises(mpi_bridge.MismatchError, lambda: dist.init_process_group("mpi_bridge"))
        check.equal(text, f"another on [{LAST}]" in text or SIZE == 2, True)
    os.environ["MPI_BRIDGE_CHECK_REPLICAS"] = "2"
    dist.init_process_group("mpi_bridge")


if __name__ == "__main__":
    rows.run(globals())
