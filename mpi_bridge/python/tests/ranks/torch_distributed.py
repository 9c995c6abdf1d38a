# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over the engine: collectives, groups, objects, DDP and FSDP2, on all ranks."""

import check
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import mpi_bridge
import mpi_bridge.torch_distributed

dist.init_process_group("mpi_bridge")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
STEPS = 40
NUMBERS = [
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
]  # fmt: skip
# Values whose sums and products every type can hold exactly.
EVERYONE = [[1 + (rank + column) % 2 for column in range(6)] for rank in range(SIZE)]


def mine(dtype, shape=(6,)):
    return torch.tensor(EVERYONE[RANK], dtype=dtype).view(shape)


def all_of(dtype):
    return torch.tensor(EVERYONE, dtype=torch.float64).to(dtype)


def same(what, actual, expected):
    if actual.dtype != expected.dtype or not torch.equal(actual, expected):
        raise check.WrongValueError(f"rank {RANK}: {what}: got {actual}, expected {expected}")


def test_allreduce():
    reductions = {
        dist.ReduceOp.SUM: lambda rows: rows.sum(0),
        dist.ReduceOp.PRODUCT: lambda rows: rows.prod(0),
        dist.ReduceOp.MIN: lambda rows: rows.min(0).values,
        dist.ReduceOp.MAX: lambda rows: rows.max(0).values,
        dist.ReduceOp.AVG: lambda rows: torch.div(rows.sum(0), SIZE, rounding_mode="trunc"),
    }
    for dtype in NUMBERS:
        for op, expected in reductions.items():
            if op == dist.ReduceOp.AVG and dtype.is_floating_point:
                expected = lambda rows: rows.double().sum(0) / SIZE  # noqa: E731
            tensor = mine(dtype)
            dist.all_reduce(tensor, op=op)
            wanted = expected(all_of(dtype)).to(dtype)
            check.close(f"{op} of {dtype}", tensor.double(), wanted.double(), 0.02)
    bits = torch.tensor([1 << RANK, 1], dtype=torch.int32)
    dist.all_reduce(bits, op=dist.ReduceOp.BOR)
    same("BOR", bits, torch.tensor([(1 << SIZE) - 1, 1], dtype=torch.int32))
    bits = torch.tensor([1 << RANK, 1], dtype=torch.int32)
    dist.all_reduce(bits, op=dist.ReduceOp.BAND)
    same("BAND", bits, torch.tensor([1 if SIZE == 1 else 0, 1], dtype=torch.int32))
    truth = torch.tensor([RANK == 0, True, False])
    dist.all_reduce(truth)
    same("the sum of truth values", truth, torch.tensor([True, True, False]))
    scaled = torch.ones(2)
    dist.all_reduce(scaled, op=dist._make_nccl_premul_sum(0.5))
    same("PREMUL_SUM", scaled, torch.full((2,), 0.5 * SIZE))
    numbers = torch.full((2,), complex(1, RANK))
    dist.all_reduce(numbers)
    same("complex", numbers, torch.full((2,), complex(SIZE, sum(range(SIZE)))))


def test_memory_that_is_not_contiguous():
    matrix = torch.zeros(3, 4)
    dist.all_reduce(matrix.t()[1:3].add_(1.0))
    same("a view in place", matrix[:, 1:3], torch.full((3, 2), float(SIZE)))
    strided = torch.zeros(3, 4)[:, ::2]
    dist.all_reduce(strided.add_(1.0))
    same("strided", strided, torch.full((3, 2), float(SIZE)))
    holes = torch.empty(2 * SIZE, 2)[:, 0]
    dist.all_gather_into_tensor(holes, torch.full((2,), float(RANK)))
    same("gathered", holes, torch.arange(SIZE).repeat_interleave(2).float())


def test_gathering():
    for dtype in [*NUMBERS, torch.bool, torch.complex64, torch.float8_e4m3fn]:
        out = torch.empty(SIZE * 6).to(dtype)
        dist.all_gather_into_tensor(out, mine(dtype))
        expected = all_of(dtype).view(-1).view(torch.uint8)
        same(f"all_gather_into_tensor {dtype}", out.view(torch.uint8), expected)
    uneven = [torch.empty(rank + 1, 2) for rank in range(SIZE)]
    dist.all_gather(uneven, torch.full((RANK + 1, 2), float(RANK)))
    for rank, part in enumerate(uneven):
        same("all_gather of uneven", part, torch.full((rank + 1, 2), float(rank)))
    root = SIZE - 1
    parts = [torch.empty(6) for _ in range(SIZE)] if root == RANK else None
    dist.gather(mine(torch.float32), parts, dst=root)
    if parts is not None:
        same("gather", torch.stack(parts), all_of(torch.float32))
    got = torch.empty(6)
    rows = list(all_of(torch.float32)) if root == RANK else None
    dist.scatter(got, rows, src=root)
    same("scatter", got, all_of(torch.float32)[RANK])


def test_root():
    root = SIZE - 1
    for dtype in [torch.float32, torch.bool, torch.complex64, torch.int16]:
        tensor = mine(dtype)
        dist.broadcast(tensor, src=root)
        same("broadcast", tensor, all_of(dtype)[root])
    tensor = mine(torch.float32)
    dist.reduce(tensor, dst=root)
    if root == RANK:
        same("reduce", tensor, all_of(torch.float32).sum(0))


def test_reduce_scatter():
    source = torch.arange(2.0 * SIZE) + RANK
    total = SIZE * torch.arange(2.0 * SIZE) + sum(range(SIZE))
    out = torch.empty(2)
    dist.reduce_scatter_tensor(out, source)
    same("reduce_scatter_tensor", out, total[2 * RANK : 2 * RANK + 2])
    dist.reduce_scatter(out, list(source.clone().view(SIZE, 2)), op=dist.ReduceOp.AVG)
    same("reduce_scatter", out, total[2 * RANK : 2 * RANK + 2] / SIZE)
    uneven = [torch.full((rank + 1,), float(RANK)) for rank in range(SIZE)]
    out = torch.empty(RANK + 1)
    dist.reduce_scatter(out, uneven)
    same("reduce_scatter of uneven", out, torch.full((RANK + 1,), float(sum(range(SIZE)))))


def test_alltoall():
    source = torch.arange(2.0 * SIZE).view(SIZE, 2) + 100 * RANK
    out = torch.empty(SIZE, 2)
    dist.all_to_all_single(out, source)
    expected = torch.stack([torch.arange(2.0) + 2 * RANK + 100 * rank for rank in range(SIZE)])
    same("all_to_all_single", out, expected)
    # rank r sends c+1 rows of value r to rank c.
    source = torch.full((sum(range(1, SIZE + 1)), 3), RANK, dtype=torch.int16)
    out = torch.empty(SIZE * (RANK + 1), 3, dtype=torch.int16)
    dist.all_to_all_single(out, source, [RANK + 1] * SIZE, list(range(1, SIZE + 1)))
    expected = torch.arange(SIZE, dtype=torch.int16).repeat_interleave(RANK + 1)
    same("all_to_all_single by splits", out[:, 2].contiguous(), expected)
    outs = [torch.empty(rank + 1) for rank in range(SIZE)]
    dist.all_to_all(outs, [torch.full((RANK + 1,), float(RANK)) for _ in range(SIZE)])
    for rank, part in enumerate(outs):
        same("all_to_all", part, torch.full((rank + 1,), float(rank)))


def test_coalesced_and_asynchronous():
    tensors = [torch.full((n + 1,), float(RANK)) for n in range(5)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
        check.equal("is_completed", work.is_completed(), True)
    for tensor in tensors:
        same("asynchronous", tensor, torch.full_like(tensor, float(sum(range(SIZE)))))
    work = dist.all_reduce(torch.ones(3), async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2).wait()
    same("through a future", doubled, torch.full((3,), 2.0 * SIZE))
    tensors = [torch.ones(n + 1, dtype=torch.float32) for n in range(3)]
    dist.distributed_c10d._get_default_group().allreduce_coalesced(tensors).wait()
    for tensor in tensors:
        same("coalesced", tensor, torch.full_like(tensor, SIZE))
    empty = torch.empty(0)
    dist.all_reduce(empty)
    dist.barrier()


def test_large_tensors_in_a_loop():
    """They are reduced in shared memory once the loop is known."""
    large = torch.empty(100_000)
    strided = torch.empty(90_000, 2)[:, 0]
    for number in range(16):
        large.fill_(RANK + number)
        strided.fill_(RANK - number)
        works = [dist.all_reduce(tensor, async_op=True) for tensor in (large, strided)]
        for work in works:
            work.wait()
        same("large", large, torch.full_like(large, sum(range(SIZE)) + SIZE * number))
        expected = torch.full((90_000,), float(sum(range(SIZE)) - SIZE * number))
        same("large and strided", strided, expected)


def test_objects():
    everyone = [None] * SIZE
    dist.all_gather_object(everyone, {"rank": RANK, "text": "x" * RANK})
    check.equal("objects", [value["rank"] for value in everyone], list(range(SIZE)))
    pair = ["a", RANK] if RANK == 0 else [None, None]
    dist.broadcast_object_list(pair, src=0)
    check.equal("pair", pair == ["a", 0], True)


def test_groups():
    halves = [list(range(0, SIZE, 2)), list(range(1, SIZE, 2))]
    groups = [dist.new_group(ranks) if ranks else None for ranks in halves]
    members = halves[RANK % 2]
    group = groups[RANK % 2]
    check.equal("rank in group", dist.get_rank(group), members.index(RANK))
    # Another number of operations in each group.
    for _ in range(1 + RANK % 2):
        tensor = torch.tensor([float(RANK)])
        dist.all_reduce(tensor, group=group)
        same("in a group", tensor, torch.tensor([float(sum(members))]))
    tensor = torch.tensor([float(RANK)])
    dist.broadcast(tensor, src=members[-1], group=group)
    same("from a global root", tensor, torch.tensor([float(members[-1])]))
    again = dist.new_group(halves[0])
    if RANK in halves[0]:
        parts = [torch.empty(1) for _ in halves[0]]
        dist.all_gather(parts, torch.tensor([float(RANK)]), group=again)
        same("the same members again", torch.cat(parts), torch.tensor(halves[0]).float())


def test_errors():
    if SIZE > 1:
        text = check.raises(mpi_bridge.MismatchError, lambda: dist.all_reduce(torch.ones(2 + RANK)))
        if "torch." not in text:
            raise check.WrongValueError(f"the error does not name the operation: {text}")
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    same("after an error", tensor, torch.tensor([float(SIZE)]))
    check.raises(ValueError, lambda: dist.all_gather_into_tensor(torch.ones(1 + 2 * SIZE), tensor))


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32), torch.nn.Linear(32, 1)
    ).double()


def batches(steps):
    generator = torch.Generator().manual_seed(5)
    for _ in range(steps):
        yield torch.randn(4 * SIZE, 8, generator=generator, dtype=torch.float64)


def train_alone(steps):
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for batch in batches(steps):
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()
    return model


def train(model, steps, optimizer=None):
    optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=0.01)
    for batch in batches(steps):
        optimizer.zero_grad()
        model(batch[4 * RANK : 4 * RANK + 4]).pow(2).mean().backward()
        optimizer.step()


def compare(what, parameters, tolerance):
    for ours, alone in zip(parameters, train_alone(STEPS).parameters()):
        check.close(what, ours.detach(), alone.detach(), tolerance)


def test_what_would_write_beside_the_result_is_refused():
    whole = torch.ones(2 * SIZE)
    for refused in (
        lambda: dist.reduce_scatter_tensor(torch.zeros(2, dtype=torch.int32), whole),
        lambda: dist.reduce_scatter_tensor(torch.zeros(2, dtype=torch.float64), whole),
        lambda: dist.all_to_all_single(whole, whole, [2 * SIZE] * (SIZE + 1), [2] * (SIZE + 1)),
        lambda: dist.all_reduce(torch.ones(1), op=dist._make_nccl_premul_sum(0.0)),
    ):
        check.raises(ValueError, refused)
    dist.all_reduce(whole)
    same("the next one", whole, torch.full((2 * SIZE,), float(SIZE)))


def test_ddp():
    model = DistributedDataParallel(make_model(), bucket_cap_mb=0.01, gradient_as_bucket_view=True)
    train(model, STEPS)
    compare("DDP", model.module.parameters(), 1e-9)
    # The engine takes its time to leave the plan of an earlier loop.
    before = mpi_bridge.engine.counters()["planned_buckets"]
    train(model, 4 * STEPS)
    planned = mpi_bridge.engine.counters()["planned_buckets"] - before
    if SIZE > 1 and planned == 0:
        raise check.WrongValueError("no bucket of DDP was planned")
    model = DistributedDataParallel(make_model().float())
    model.register_comm_hook(None, bf16_compress_hook)
    generator = torch.Generator().manual_seed(RANK)
    batch = torch.randn(4, 8, generator=generator)
    model(batch).pow(2).mean().backward()
    for parameter in model.parameters():
        check.same_on_all_ranks("gradients through bf16", parameter.grad.numpy())


def test_fsdp2():
    model = make_model()
    for layer in (model[0], model[2], model[3]):
        fully_shard(layer)
    fully_shard(model)
    train(model, STEPS)
    full = [parameter.full_tensor() for parameter in model.parameters()]
    compare("FSDP2", full, 1e-9)


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        mpi_bridge.barrier()
check.passed()
dist.destroy_process_group()
