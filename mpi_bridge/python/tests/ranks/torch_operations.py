# SPDX-License-Identifier: Apache-2.0
"""horovod.torch's operations against values computed here.

Breaks when scaling, uneven parts, compression, gradients or the broadcast of state go wrong.
"""

import check
import numpy as np
import torch

import horovod.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
MEAN_RANK = (SIZE - 1) / 2


def allreduce():
    mine = torch.arange(6.0).view(2, 3) + RANK
    base = torch.arange(6.0).view(2, 3)
    check.equal("average", hvd.allreduce(mine), base + MEAN_RANK)
    check.equal("sum", hvd.allreduce(mine, op=hvd.Sum), base * SIZE + MEAN_RANK * SIZE)
    check.equal(
        "average=False", hvd.allreduce(mine, average=False), hvd.allreduce(mine, op=hvd.Sum)
    )
    check.equal("min", hvd.allreduce(mine, op=hvd.Min), base)
    check.equal("max", hvd.allreduce(mine, op=hvd.Max), base + SIZE - 1)
    scaled = hvd.allreduce(mine, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.25)
    check.equal("scaled", scaled, (base * SIZE + MEAN_RANK * SIZE) / 2)
    check.equal("of a transposed tensor", hvd.allreduce(mine.t()), (base + MEAN_RANK).t())
    check.equal("integers", hvd.allreduce(torch.tensor([7])), [7])
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        result = hvd.allreduce(torch.full((5,), float(RANK), dtype=dtype), op=hvd.Sum)
        check.equal(f"sum of {dtype}", result.double(), [MEAN_RANK * SIZE] * 5)
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        result = hvd.allreduce(mine, compression=compression)
        check.equal("type after compression", str(result.dtype), "torch.float32")
        check.close("compressed average", result, base + MEAN_RANK, 0.05)
    in_place = mine.clone()
    hvd.allreduce_(in_place)
    check.equal("in place", in_place, base + MEAN_RANK)
    check.raises(ValueError, lambda: hvd.allreduce(mine, average=True, op=hvd.Sum))
    check.raises(NotImplementedError, lambda: hvd.allreduce(mine, op=hvd.Adasum))
    check.equal("the argument is left alone", mine, base + RANK)


def parts():
    mine = torch.full((RANK % 3 + 1, 2), float(RANK))
    rows = [torch.full((r % 3 + 1, 2), float(r)) for r in range(SIZE)]
    check.equal("uneven allgather", hvd.allgather(mine), torch.cat(rows))
    check.equal("allgather of numbers", hvd.allgather(torch.tensor(RANK)), np.arange(SIZE))

    splits = [(RANK + r) % 2 + 1 for r in range(SIZE)]
    sent = torch.cat([torch.full((n,), RANK * 100 + r) for r, n in enumerate(splits)])
    received, counts = hvd.alltoall(sent, splits=torch.tensor(splits))
    expected = [torch.full(((r + RANK) % 2 + 1,), r * 100 + RANK) for r in range(SIZE)]
    check.equal("alltoall", received, torch.cat(expected))
    check.equal("alltoall's counts", counts, [len(part) for part in expected])

    rows_of_all = 2 * SIZE + 1
    mine = torch.arange(rows_of_all * 2.0).view(rows_of_all, 2) + RANK
    first = 2 * RANK + (1 if RANK > 0 else 0)
    count = 3 if RANK == 0 else 2
    whole = torch.arange(rows_of_all * 2.0).view(rows_of_all, 2) + MEAN_RANK
    check.equal("reducescatter", hvd.reducescatter(mine), whole[first : first + count])


def broadcast():
    for root in range(SIZE):
        received = hvd.broadcast(torch.tensor([RANK, RANK + 1]), root)
        check.equal(f"broadcast from {root}", received, [root, root + 1])
    tensor = torch.full((3,), RANK == 0)
    hvd.broadcast_(tensor, 0)
    check.equal("broadcast of booleans", tensor, [True] * 3)
    check.equal("broadcast_object", hvd.broadcast_object([RANK], SIZE - 1), [SIZE - 1])


def gradients():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (hvd.allreduce(x, op=hvd.Sum) * (RANK + 1.0)).sum().backward()
    check.equal("gradient of a sum", x.grad, [SIZE * (MEAN_RANK + 1)] * 2)
    x = torch.full((RANK + 1, 1), 1.0, requires_grad=True)
    (hvd.allgather(x) * 3.0).sum().backward()
    check.equal("gradient of allgather", x.grad, np.full((RANK + 1, 1), 3.0))


def state():
    torch.manual_seed(RANK)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (RANK + 1))
    for _ in range(RANK + 1):
        model(torch.randn(5, 3)).square().sum().backward()
        optimizer.step()
    if RANK != 0:
        # A rank that restored nothing has no state at all.
        optimizer = torch.optim.Adam(model.parameters(), lr=1.0)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for name, tensor in model.state_dict().items():
        check.same_on_all_ranks(name, tensor.numpy())
    check.equal("learning rate", optimizer.param_groups[0]["lr"], 0.1)
    for parameter in model.parameters():
        check.same_on_all_ranks("exp_avg", optimizer.state[parameter]["exp_avg"].numpy())
        check.equal("step", optimizer.state[parameter]["step"], 1)


allreduce()
parts()
broadcast()
gradients()
state()
check.passed()
