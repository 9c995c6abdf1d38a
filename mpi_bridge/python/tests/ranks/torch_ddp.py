# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel in its variants, and what is used beside it, over two groups.

The group over mpi_bridge must give what gloo's gives.
"""

import contextlib
import os
import threading

import check
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch_default_group import RANK, SIZE, both, same

from mpi_bridge.torch_distributed import cpp_backend

STEPS = 4
# torch takes the wrapper that DETAIL puts around the group of gloo for that group itself, and may
# crash (set_env_variables in logger.cpp).
IS_DETAIL = os.environ.get("TORCH_DISTRIBUTED_DEBUG") == "DETAIL"
GROUPS = (dist.group.WORLD, dist.group.WORLD) if IS_DETAIL else both()


class Branches(nn.Module):
    """A model of which each rank uses one half, or all in the end."""

    def __init__(self):
        super().__init__()
        self.halves = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])

    def forward(self, batch, step):
        if step == STEPS - 1:
            return self.halves[0](batch) + self.halves[1](batch)
        return self.halves[(RANK + step) % 2](batch)


class Words(nn.Module):
    """An embedding whose gradient is sparse, and a layer whose is not."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 3, sparse=True)
        self.out = nn.Linear(3, 1)

    def forward(self, numbers):
        return self.out(self.words(numbers))


def gradients(make_model, take_step, **options):
    """Return the gradients after some steps, for each of the groups."""
    found = []
    for group in GROUPS:
        torch.manual_seed(3)
        model = make_model().double()
        wrapped = DistributedDataParallel(model, process_group=group, **options)
        for step in range(STEPS):
            take_step(wrapped, step)
        found.append([each.grad.to_dense().clone() for each in model.parameters()])
    return found


def compare(what, found):
    ours, wanted = found
    for one, other in zip(ours, wanted):
        check.close(what, one, other, 1e-12)


def batch(step):
    return torch.full((2, 3), float(RANK + step + 1), dtype=torch.float64)


def check_parameters_that_some_ranks_do_not_use():
    def take_step(model, step):
        model.zero_grad()
        model(batch(step), step).sum().backward()

    compare("unused", gradients(Branches, take_step, find_unused_parameters=True))


def check_gradients_of_several_passes():
    def take_step(model, step):
        context = contextlib.nullcontext() if step % 2 else model.no_sync()
        with context:
            model(batch(step)).sum().backward()

    compare("no_sync", gradients(lambda: nn.Linear(3, 3), take_step))
    compare(
        "static graph",
        gradients(
            lambda: nn.Linear(3, 3),
            lambda model, step: model(batch(step)).sum().backward(),
            static_graph=True,
        ),
    )


def check_sparse_gradients():
    def take_step(model, step):
        model.zero_grad()
        model(torch.tensor([RANK, RANK, step])).sum().backward()

    compare("sparse", gradients(Words, take_step))


def check_a_single_element_of_any_stride():
    column = torch.arange(3).view(1, 3)[:, :1].t()
    everyone = [torch.empty(1, 1, dtype=torch.int64) for _ in range(SIZE)]
    dist.all_gather(everyone, column)
    same("gathered", torch.cat(everyone), torch.zeros(SIZE, 1, dtype=torch.int64))


def check_sums_of_sparse_tensors():
    def entries(dtype, dense=()):
        # Twice the same place, and no entry at all on one rank.
        count = 0 if RANK == SIZE - 1 and SIZE > 1 else 3
        places = torch.tensor([[RANK, 0, RANK], [1, 0, 1]])[:, :count]
        values = torch.arange(1, 4).view(3, *[1] * len(dense)).expand(3, *dense)[:count]
        shape = (SIZE, 2, *dense)
        return torch.sparse_coo_tensor(places, values.to(dtype), shape, check_invariants=True)

    for dtype in (torch.float32, torch.float16, torch.int64):
        for dense in ((), (2,)):
            tensor = entries(dtype, dense)
            everyone = [torch.empty(tensor.shape, dtype=dtype) for _ in range(SIZE)]
            dist.all_gather(everyone, tensor.to_dense())
            wanted = torch.stack(everyone).sum(0, dtype=dtype)
            dist.all_reduce(tensor)
            same(f"sum of {dtype}", tensor.to_dense(), wanted)
            check.equal("coalesced", tensor.is_coalesced(), True)
    tensor = entries(torch.float64)
    wanted = tensor.to_dense() / SIZE
    dist.all_reduce(wanted)
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    check.close("average", tensor.to_dense(), wanted, 1e-12)
    tensor = torch.tensor([(1 << 53) + 1, 0]).to_sparse()
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    check.equal("an exact average", tensor.to_dense()[0].item(), (1 << 53) + 1)
    for values in (
        torch.tensor([100, -3], dtype=torch.int8),
        torch.tensor([50176.0, -3.0], dtype=torch.float16),
    ):
        tensor = values.to_sparse()
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
        same("an average whose sum overflows", tensor.to_dense(), values)
    empty = torch.sparse_coo_tensor(torch.empty(1, 0), torch.empty(0, 2), (5, 2))
    dist.all_reduce(empty)
    check.equal("no entry at all", empty._nnz(), 0)
    for refused in (dist.ReduceOp.MAX, dist.ReduceOp.BXOR):
        check.raises(
            NotImplementedError, lambda op=refused: dist.all_reduce(entries(torch.int64), op=op)
        )
    rows = torch.eye(2).to_sparse_csr()
    check.raises(NotImplementedError, lambda: dist.all_reduce(rows))


def gradients_by_power_sgd(group):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16)).double()
    wrapped = DistributedDataParallel(model, process_group=group)
    state = powerSGD_hook.PowerSGDState(group, start_powerSGD_iter=2, random_seed=1)
    wrapped.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    for step in range(STEPS + 2):
        model.zero_grad()
        wrapped(torch.full((2, 16), RANK + step + 1.0).double()).square().sum().backward()
    return [each.grad.clone() for each in model.parameters()]


def check_a_hook_that_waits_for_further_operations():
    compare("PowerSGD", [gradients_by_power_sgd(group) for group in GROUPS])


def check_a_future_that_is_waited_for_when_another_is_completed():
    for _ in range(20):
        first, second, third = (torch.ones(5) * (RANK + 1) for _ in range(3))

        def further(_future, second=second, third=third):
            for tensor in (second, third):
                dist.all_reduce(tensor, async_op=True).get_future().wait()
            return third

        future = dist.all_reduce(first, async_op=True).get_future().then(further)
        same("third", future.wait(), torch.full((5,), SIZE * (SIZE + 1) / 2))


def check_a_callback_that_not_all_ranks_would_run_at_the_same_place():
    if os.environ.get("TORCH_DISTRIBUTED_DEBUG") == "DETAIL" and cpp_backend.module() is not None:
        raise check.Skipped("torch, which then compares calls itself, may be the first to notice")
    # With several buckets, PowerSGD does this. Gloo's threads then wait for each other for ever.
    for _ in range(10):
        both_are_started = threading.Event()
        early = []

        def further(_future, both_are_started=both_are_started, early=early):
            if threading.current_thread() is threading.main_thread():
                # The future was complete before this was added to it.
                early.append(True)
                return
            both_are_started.wait()
            dist.all_reduce(torch.ones(5))

        future = dist.all_reduce(torch.ones(5), async_op=True).get_future().then(further)
        work = dist.all_reduce(torch.ones(5), async_op=True)
        both_are_started.set()
        if not early:
            text = check.raises(RuntimeError, future.wait)
            check.equal("the reason", "disagree about their order" in text, True)
        work.wait()


def check_a_callback_that_all_ranks_run_at_the_same_place():
    for _ in range(20):
        first = dist.all_reduce(torch.ones(5), async_op=True)
        second = dist.all_reduce(torch.ones(5), async_op=True)
        # On every rank both were started before the callback could begin.
        further = torch.full((3,), RANK + 1.0)
        future = first.get_future().then(lambda _, further=further: dist.all_reduce(further))
        future.wait()
        second.wait()
        same("further", further, torch.full((3,), SIZE * (SIZE + 1) / 2))


def check_a_long_chain_of_callbacks():
    """Breaks when each link of the chain takes a thread of its own."""
    count, most = [0], [0]
    ended = torch.futures.Future()

    def go_on(_future):
        count[0] += 1
        most[0] = max(most[0], threading.active_count())
        if count[0] == 200:
            ended.set_result(None)
            return
        dist.all_reduce(torch.ones(2), async_op=True).get_future().then(go_on)

    before = threading.active_count()
    dist.all_reduce(torch.ones(2), async_op=True).get_future().then(go_on)
    ended.wait()
    # On a busy machine, some links end later than their successors begin.
    check.equal("few threads", most[0] - before < 100, True)


OTHER = dist.new_group(list(range(SIZE)))


def check_callbacks_that_go_through_another_group():
    def future_of(group):
        return dist.all_reduce(torch.ones(5), group=group, async_op=True).get_future()

    def in_the_other(_future):
        def in_the_first(_future):
            future_of(dist.group.WORLD).wait()
            dist.all_reduce(torch.ones(3))

        future_of(OTHER).then(in_the_first).wait()
        dist.all_reduce(torch.ones(4))

    for _ in range(20):
        future_of(dist.group.WORLD).then(in_the_other).wait()


def check_a_group_that_a_callback_ends():
    group = dist.new_group(list(range(SIZE)))
    work = dist.all_reduce(torch.ones(5), group=group, async_op=True)

    def end(_future):
        further = dist.all_reduce(torch.ones(5), group=group, async_op=True)
        further.get_future().then(lambda _: dist.destroy_process_group(group)).wait()

    # Breaks when the thread that ends the group waits for itself.
    work.get_future().then(end).wait()


def check_many_operations_in_one_call():
    tensors = [torch.full((1 + number % 4,), RANK + 1.0) for number in range(40)]
    for _ in range(3):
        with dist._coalescing_manager():
            for tensor in tensors:
                tensor.fill_(RANK + 1.0)
                dist.all_reduce(tensor)
        for tensor in tensors:
            same("coalesced", tensor, torch.full(tensor.shape, SIZE * (SIZE + 1) / 2))


def linear_over(group):
    torch.manual_seed(3)
    model = nn.Linear(3, 3).double()
    return model, DistributedDataParallel(model, process_group=group)


def check_ranks_with_fewer_batches():
    found = []
    for group in GROUPS:
        model, wrapped = linear_over(group)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with Join([wrapped]):
            for step in range(2 + RANK):
                optimizer.zero_grad()
                wrapped(batch(step)).sum().backward()
                optimizer.step()
        found.append([each.detach().clone() for each in model.parameters()])
    compare("Join", found)


def check_an_optimizer_of_which_each_rank_has_a_part():
    found = []
    for group in GROUPS:
        model, wrapped = linear_over(group)
        optimizer = ZeroRedundancyOptimizer(
            wrapped.parameters(), torch.optim.Adam, process_group=group, lr=0.1
        )
        for step in range(STEPS):
            optimizer.zero_grad()
            wrapped(batch(step)).sum().backward()
            optimizer.step()
        optimizer.consolidate_state_dict()
        found.append([each.detach().clone() for each in model.parameters()])
    compare("ZeRO", found)
