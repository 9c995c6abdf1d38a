# SPDX-License-Identifier: Apache-2.0
"""torch.compile with DDP and FSDP2, and collectives as functions, over mpi_bridge."""

import check
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch_default_group import RANK, SIZE, same

from mpi_bridge.torch_distributed import cpp_backend

TOTAL = SIZE * (SIZE + 1) / 2


def check_collectives_as_functions():
    group = dist.group.WORLD
    mine = torch.full((SIZE, 2), RANK + 1.0)
    same("all_reduce", functional.all_reduce(mine, "sum", group), torch.full((SIZE, 2), TOTAL))
    gathered = functional.all_gather_tensor(mine[:1], 0, group)
    same("all_gather", gathered[:, 0], torch.arange(1.0, SIZE + 1))
    scattered = functional.reduce_scatter_tensor(mine, "sum", 0, group)
    same("reduce_scatter", scattered, torch.full((1, 2), TOTAL))
    swapped = functional.all_to_all_single(mine, None, None, group)
    same("all_to_all", swapped[:, 0], torch.arange(1.0, SIZE + 1))
    same("broadcast", functional.broadcast(mine, 0, group), torch.ones(SIZE, 2))


def check_a_compiled_function_with_a_collective():
    @torch.compile(backend="aot_eager", fullgraph=True)
    def summed(tensor):
        return functional.all_reduce(tensor * 2, "sum", dist.group.WORLD) + 1

    for _ in range(3):
        same("compiled", summed(torch.full((3,), RANK + 1.0)), torch.full((3,), 2 * TOTAL + 1))


def make_model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def train(model, parameters):
    """Return the parameters after some steps, on this rank's part of the data."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        data = torch.linspace(-1, 1, 8 * 4 * SIZE).view(-1, 8) * (step + 1)
        optimizer.zero_grad()
        model(data[RANK::SIZE]).square().mean().backward()
        optimizer.step()
    return [each.detach().clone() for each in parameters()]


def check_compiled_ddp_trains_as_ddp():
    if cpp_backend.module() is None:
        raise check.Skipped("the compiler looks into a group in Python, and finds what it refuses")
    plain = make_model()
    expected = train(DistributedDataParallel(plain), plain.parameters)
    model = make_model()
    compiled = torch.compile(DistributedDataParallel(model), backend="aot_eager")
    for one, other in zip(train(compiled, model.parameters), expected):
        check.close("weights", one, other, 1e-6)


def check_compiled_fsdp2_trains_as_fsdp2():
    def trained(compile_it):
        model = make_model()
        mesh = init_device_mesh("cpu", (SIZE,))
        for layer in (model[0], model[2]):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        if compile_it:
            model.compile(backend="aot_eager")
        return [each.full_tensor() for each in train(model, model.parameters)]

    for one, other in zip(trained(True), trained(False)):
        check.close("weights", one, other, 1e-6)


def check_what_the_backend_cannot_do_is_said():
    ours = dist.group.WORLD._get_backend(torch.device("cpu"))
    check.equal("reconfigure", getattr(ours, "supports_reconfigure", False), False)
