# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over mpi_bridge on CUDA tensors: collectives, and DDP against one process."""

import check
import rows
import torch
import torch.distributed as dist
from device.training import data, device_of, losses_alone, make_model, optimizer_of, part_of
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import mpi_bridge
import mpi_bridge.torch_distributed

mpi_bridge.init()
DEVICE = device_of(mpi_bridge.local_rank())
if mpi_bridge.size() == 1:
    # No launcher has left word for torch where the ranks meet.
    dist.init_process_group("mpi_bridge", rank=0, world_size=1, store=dist.HashStore())
else:
    dist.init_process_group("mpi_bridge")
RANK, SIZE = dist.get_rank(), dist.get_world_size()


def check_collectives():
    tensor = torch.full((1000,), RANK + 1.0, device=DEVICE)
    dist.all_reduce(tensor)
    check.equal("all_reduce", tensor.cpu(), torch.full((1000,), SIZE * (SIZE + 1) / 2))
    gathered = torch.empty(SIZE, 3, device=DEVICE)
    dist.all_gather_into_tensor(gathered, torch.full((3,), float(RANK), device=DEVICE))
    check.equal("all_gather", gathered[:, 0].cpu(), torch.arange(SIZE))


def check_training_is_that_of_one_process():
    expected, alone = losses_alone(DEVICE, SIZE)
    for options in ({}, {"gradient_as_bucket_view": True}, {"bucket_cap_mb": 0.01}):
        model = make_model(DEVICE, seed=7 + RANK)  # DDP takes the first rank's weights
        wrapped = DistributedDataParallel(model, **options)
        optimizer = optimizer_of(model)
        losses = []
        for step, _ in enumerate(expected):
            pictures, classes = (part_of(each, RANK) for each in data(step, SIZE, DEVICE))
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(wrapped(pictures), classes)
            loss.backward()
            optimizer.step()
            mean = loss.detach() / SIZE
            dist.all_reduce(mean)
            losses.append(mean.item())
        check.close(f"losses with {options}", losses, expected, 2e-4)
        for actual, wanted in zip(model.parameters(), alone.parameters()):
            check.close(
                f"weights with {options}", actual.detach().cpu(), wanted.detach().cpu(), 2e-4
            )


if __name__ == "__main__":
    rows.run(globals())
