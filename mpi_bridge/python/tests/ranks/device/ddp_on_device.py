# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over mpi_bridge on CUDA tensors: collectives and their order with streams.

DDP and FSDP2 must train as one process does.
"""

import check
import rows
import torch
import torch.distributed as dist
from device.training import STEPS, data, device_of, losses_alone, make_model, optimizer_of, part_of
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
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


def check_results_follow_the_stream_that_waits():
    if DEVICE.type != "cuda":
        raise check.Skipped("there is no GPU")
    side = torch.cuda.Stream()
    for step in range(5):
        tensor = torch.zeros(1 << 20, device=DEVICE)
        torch.cuda._sleep(50_000_000)
        tensor.fill_(RANK + 1)
        work = dist.all_reduce(tensor, async_op=True)
        with torch.cuda.stream(side):
            work.wait()
            result = tensor.cpu()
        check.equal(f"step {step}", result, torch.full((1 << 20,), SIZE * (SIZE + 1) / 2))


def train(model, optimizer, steps):
    """Return the loss over all ranks of each step."""
    losses = []
    for step in range(steps):
        pictures, classes = (part_of(each, RANK) for each in data(step, SIZE, DEVICE))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(pictures), classes)
        loss.backward()
        optimizer.step()
        mean = loss.detach() / SIZE
        dist.all_reduce(mean)
        losses.append(mean.item())
    return losses


def compare(what, losses, parameters):
    expected, alone = losses_alone(DEVICE, SIZE)
    check.close(f"losses of {what}", losses, expected, 2e-4)
    for actual, wanted in zip(parameters, alone.parameters()):
        check.close(f"weights of {what}", actual.detach().cpu(), wanted.detach().cpu(), 2e-4)


def check_ddp_trains_as_one_process():
    for options in ({}, {"gradient_as_bucket_view": True}, {"bucket_cap_mb": 0.01}):
        model = make_model(DEVICE, seed=7 + RANK)  # DDP takes the first rank's weights
        wrapped = DistributedDataParallel(model, **options)
        losses = train(wrapped, optimizer_of(model), STEPS)
        compare(f"DDP with {options}", losses, model.parameters())


def check_replicas_are_equal_to_the_last_bit():
    model = make_model(DEVICE, seed=7 + RANK)
    train(DistributedDataParallel(model, bucket_cap_mb=0.01), optimizer_of(model), STEPS)
    with torch.no_grad():
        flat = torch.cat([each.reshape(-1) for each in model.parameters()])
    bits = flat.view(torch.int32)
    gathered = [torch.empty_like(bits) for _ in range(SIZE)]
    dist.all_gather(gathered, bits)
    for rank, theirs in enumerate(gathered):
        check.equal(f"bits of rank {rank}", torch.equal(theirs, bits), True)


def check_fsdp2_trains_as_one_process():
    model = make_model(DEVICE)
    mesh = init_device_mesh(DEVICE.type, (SIZE,))
    for layer in model:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    losses = train(model, optimizer_of(model), STEPS)
    compare("FSDP2", losses, [each.full_tensor() for each in model.parameters()])


if __name__ == "__main__":
    rows.run(globals())
