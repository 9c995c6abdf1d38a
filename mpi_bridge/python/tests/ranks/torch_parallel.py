# SPDX-License-Identifier: Apache-2.0
"""What torch builds on a backend: meshes, tensor and pipeline parallelism, FSDP2, checkpoints.

Each of these must give what one process computes alone.
"""

import copy
import shutil
import tempfile

import check
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch_default_group import RANK, SIZE

MESH = init_device_mesh("cpu", (SIZE // 2, 2), mesh_dim_names=("data", "tensor"))
DATA = MESH["data"]
STEPS = 3
ROWS = 4
STYLES = {"0": ColwiseParallel(), "2": RowwiseParallel()}


def make_model():
    torch.manual_seed(0)
    layers = torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8), torch.nn.Tanh()
    return torch.nn.Sequential(*layers).double()


def train(model, part, parts):
    """Train on one of several equal parts of each batch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(5)
    for _ in range(STEPS):
        batch = torch.randn(ROWS * parts, 8, generator=generator, dtype=torch.float64)
        optimizer.zero_grad()
        model(batch[ROWS * part : ROWS * (part + 1)]).pow(2).mean().backward()
        optimizer.step()
    return model


def whole(tensor):
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach()


def compare(what, model, parts):
    alone = make_model()
    optimizer = torch.optim.Adam(alone.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(5)
    for _ in range(STEPS):
        batch = torch.randn(ROWS * parts, 8, generator=generator, dtype=torch.float64)
        optimizer.zero_grad()
        alone(batch).pow(2).mean().backward()
        optimizer.step()
    for ours, wanted in zip(model.parameters(), alone.parameters()):
        check.close(what, whole(ours), wanted.detach(), 1e-9)


def check_a_mesh_of_two_dimensions():
    check.equal("coordinate", list(MESH.get_coordinate()), [RANK // 2, RANK % 2])
    numbers = torch.arange(4.0 * SIZE).view(SIZE, 4)
    tensor = distribute_tensor(numbers, MESH, [Shard(0), Shard(1)])
    check.equal("local", list(tensor.to_local().shape), [SIZE // (SIZE // 2), 2])
    check.equal(
        "redistributed", tensor.redistribute(MESH, [Shard(1), Replicate()]).full_tensor(), numbers
    )
    check.equal("sum", tensor.sum().full_tensor().item(), numbers.sum().item())


def check_tensor_parallelism():
    model = parallelize_module(make_model(), MESH["tensor"], dict(STYLES))
    compare("tensor parallel", train(model, 0, 1), 1)


def check_fsdp2_over_tensor_parallelism():
    model = parallelize_module(make_model(), MESH["tensor"], dict(STYLES))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=DATA)
    fully_shard(model, mesh=DATA)
    compare("FSDP2 over tensor parallel", train(model, RANK // 2, SIZE // 2), SIZE // 2)


def check_fsdp2_with_replicas():
    model = make_model()
    fully_shard(model, mesh=MESH)
    compare("FSDP2 with replicas", train(model, RANK, SIZE), SIZE)


def check_ddp_of_a_mesh():
    model = DistributedDataParallel(make_model(), process_group=DATA.get_group())
    compare("DDP of a dimension", train(model, RANK // 2, SIZE // 2).module, SIZE // 2)


def check_checkpoints():
    paths = [tempfile.mkdtemp() if RANK == 0 else None]
    dist.broadcast_object_list(paths, src=0)
    try:
        saved = make_model()
        fully_shard(saved, mesh=MESH)
        train(saved, RANK, SIZE)
        checkpoint.save(get_model_state_dict(saved), checkpoint_id=paths[0])
        # Read by a model that is divided in another way.
        loaded = parallelize_module(make_model(), MESH["tensor"], dict(STYLES))
        state = get_model_state_dict(loaded)
        checkpoint.load(state, checkpoint_id=paths[0])
        set_model_state_dict(loaded, state)
        for ours, wanted in zip(loaded.parameters(), saved.parameters()):
            check.equal("loaded", whole(ours), whole(wanted))
        checkpoint.async_save(get_model_state_dict(saved), checkpoint_id=paths[0]).result()
    finally:
        dist.barrier()
        if RANK == 0:
            shutil.rmtree(paths[0])


def check_pipeline_parallelism():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 4).double() for _ in range(SIZE)]
    alone = torch.nn.Sequential(*copy.deepcopy(layers))
    batch = torch.arange(32, dtype=torch.float64).view(8, 4) / 32
    wanted = alone(batch)
    wanted.pow(2).mean().backward()
    stage = PipelineStage(layers[RANK], RANK, SIZE, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 4, loss_fn=lambda out, target: (out - target).pow(2).mean())
    if RANK == 0:
        schedule.step(batch)
    elif RANK == SIZE - 1:
        out = schedule.step(target=torch.zeros_like(wanted))
        check.close("the pipeline's result", out.detach(), wanted.detach(), 1e-12)
    else:
        schedule.step()
    check.close("gradient", layers[RANK].weight.grad, alone[RANK].weight.grad, 1e-12)
