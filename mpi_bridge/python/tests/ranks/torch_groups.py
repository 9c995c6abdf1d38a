# SPDX-License-Identifier: Apache-2.0
"""Groups of torch.distributed: who makes them, in which order, for how long, and with what."""

import gc
import os
from datetime import timedelta

import check
import torch
import torch.distributed as dist
from torch_default_group import RANK, SIZE, both, same

import mpi_bridge
from mpi_bridge import engine, private_sets, process_sets
from mpi_bridge.engine import Kind
from mpi_bridge.torch_distributed import cpp_backend
from mpi_bridge.torch_distributed import process_sets as torch_sets
from mpi_bridge.torch_distributed.replicas import process_set_of

EVERYBODY = list(range(SIZE))
PAIRS = [EVERYBODY[start : start + 2] for start in range(0, SIZE, 2)]
PAIR = PAIRS[RANK // 2]


def total(group, ranks):
    """The group's sum of its ranks, which must be right."""
    tensor = torch.tensor([float(RANK)])
    dist.all_reduce(tensor, group=group)
    same("the sum of a group", tensor, torch.tensor([float(sum(ranks))]))


def make_pairs(**options):
    """Have all ranks make all pairs, as torch requires, and return this rank's."""
    groups = [dist.new_group(ranks, **options) for ranks in PAIRS]
    return groups[RANK // 2]


def check_only_members_make_a_group():
    group = dist.new_group(PAIR, use_local_synchronization=True)
    total(group, PAIR)
    # torch names groups by their number, so all ranks must make equally many.
    alone = dist.new_group([RANK], use_local_synchronization=True)
    total(alone, [RANK])
    total(group, PAIR)


def check_overlapping_groups():
    rings = [[number, (number + 1) % SIZE] for number in EVERYBODY] if SIZE > 2 else [EVERYBODY]
    mine = {}
    for ranks in rings:
        group = dist.new_group(ranks)
        if RANK in ranks:
            mine[tuple(ranks)] = group
    for _ in range(12):  # long enough for plans
        works = []
        for ranks, group in mine.items():
            tensor = torch.tensor([float(RANK)])
            works.append((dist.all_reduce(tensor, group=group, async_op=True), tensor, ranks))
        for work, tensor, ranks in works:
            work.wait()
            same("in overlapping groups", tensor, torch.tensor([float(sum(ranks))]))


def check_destroy_frees_the_process_set():
    before, files = process_sets.ids(), len(os.listdir("/proc/self/fd"))
    for _ in range(24):
        group = make_pairs()
        total(group, PAIR)
        dist.destroy_process_group(group)
    check.equal("process sets", process_sets.ids(), before)
    # The shared memory of a set is freed when the next one is made.
    if len(os.listdir("/proc/self/fd")) > files + 8:
        raise check.WrongValueError("the groups that were destroyed still have open files")


def check_ranks_in_another_order():
    order = EVERYBODY[1:] + EVERYBODY[:1]
    for backend in ("mpi_bridge", "gloo"):
        group = dist.new_group(order, sort_ranks=False, backend=backend)
        place = order.index(RANK)
        check.equal("place", dist.get_rank(group), place)
        mine = torch.tensor([10.0 * place, 10.0 * place + 1])
        parts = [torch.empty(2) for _ in order]
        dist.all_gather(parts, mine, group=group)
        wanted = torch.tensor([[10.0 * each, 10.0 * each + 1] for each in EVERYBODY])
        same(f"all_gather of {backend}", torch.stack(parts), wanted)
        whole = torch.empty(2 * SIZE)
        dist.all_gather_into_tensor(whole, mine, group=group)
        same(f"all_gather_into_tensor of {backend}", whole, wanted.view(-1))
        out = torch.empty(1)
        source = torch.arange(float(SIZE)) + place
        dist.reduce_scatter_tensor(out, source, group=group)
        same(
            f"reduce_scatter of {backend}", out, torch.tensor([SIZE * place + sum(EVERYBODY) * 1.0])
        )
        swapped = torch.empty(SIZE)
        dist.all_to_all_single(swapped, torch.arange(float(SIZE)) + 100 * place, group=group)
        same(f"all_to_all of {backend}", swapped, torch.arange(SIZE) * 100.0 + place)
        rows = [torch.full((2,), float(each)) for each in EVERYBODY] if place == 1 else None
        got = torch.empty(2)
        dist.scatter(got, rows, group=group, group_src=1 % SIZE)
        same(f"scatter of {backend}", got, torch.full((2,), float(place)))
        told = [torch.empty(2) for _ in order] if place == 1 else None
        dist.gather(mine, told, group=group, group_dst=1 % SIZE)
        if told is not None:
            same(f"gather of {backend}", torch.stack(told), wanted)
        tensor = torch.tensor([float(place)])
        dist.broadcast(tensor, group=group, group_src=SIZE - 1)
        same(f"broadcast of {backend}", tensor, torch.tensor([SIZE - 1.0]))
        if place == 0:
            dist.send(torch.tensor([5.0]), group=group, group_dst=SIZE - 1)
        elif place == SIZE - 1:
            check.equal("from", dist.recv(tensor, group=group, group_src=0), order[0])
            same(f"recv of {backend}", tensor, torch.tensor([5.0]))
    uneven = dist.new_group(order, sort_ranks=False)
    place = order.index(RANK)
    source = torch.full((sum(range(1, SIZE + 1)),), float(place))
    out = torch.empty(SIZE * (place + 1))
    dist.all_to_all_single(out, source, [place + 1] * SIZE, list(range(1, SIZE + 1)), group=uneven)
    same("uneven all_to_all", out, torch.arange(float(SIZE)).repeat_interleave(place + 1))


def check_split_group():
    group = dist.split_group(split_ranks=PAIRS)
    total(group, PAIR)
    check.equal("ranks", dist.get_process_group_ranks(group), PAIR)
    backwards = dist.split_group(group, split_ranks=[list(reversed(range(len(PAIR))))])
    check.equal("rank", dist.get_rank(backwards), len(PAIR) - 1 - PAIR.index(RANK))
    total(backwards, PAIR)
    first = dist.split_group(split_ranks=[[0]])
    check.equal("member", first is not dist.GroupMember.NON_GROUP_MEMBER, RANK == 0)
    if RANK == 0:
        total(first, [0])


def check_a_timeout_of_its_own():
    dist.barrier()
    # This also limits how long the members wait for each other here.
    group = make_pairs(timeout=timedelta(seconds=2))
    if PAIR[-1] == RANK:
        late = torch.ones(1)
        work = dist.all_reduce(late, group=group, async_op=True)
        text = check.raises(TimeoutError, work.wait)
        check.equal(text, "Timed out waiting 2000ms" in text, True)
        text = check.raises(RuntimeError, work.get_future().wait)
        check.equal(
            text, "CollectiveTimeoutError" in text and "Timed out waiting 2000ms" in text, True
        )
        # It goes on, and so do other groups.
    dist.barrier()
    dist.set_timeout(timedelta(seconds=30), group)
    tensor = torch.ones(1)
    if PAIR[-1] == RANK:
        work.wait()
        same("in the end", late, torch.ones(1) * len(PAIR))
    else:
        dist.all_reduce(tensor, group=group)
        same("in the end", tensor, torch.ones(1) * len(PAIR))


# Breaks when torch takes the default group's backend for one whose communicator it can split.
def check_a_group_beside_a_device_that_the_default_group_is_bound_to():
    if cpp_backend.module() is None:
        raise check.Skipped("a group in Python has no backend that torch could take for that")
    bound = dist.group.WORLD.bound_device_id
    dist.group.WORLD.bound_device_id = torch.device("cpu:0")
    try:
        first = dist.new_group([0])
    finally:
        dist.group.WORLD.bound_device_id = bound
    if RANK == 0:
        total(first, [0])


def check_the_end_of_a_group_waits_for_no_operation():
    if SIZE == 1:
        return
    group, tensor = make_pairs(), torch.ones(3)
    if PAIR[-1] == RANK and len(PAIR) > 1:
        work = dist.all_reduce(tensor, group=group, async_op=True)
        dist.destroy_process_group(group)
        del work, group
        gc.collect()
        dist.barrier()
    else:
        dist.barrier()
        # The other member's operation has gone on.
        dist.all_reduce(tensor, group=group)
        same("sum", tensor, torch.ones(3) * len(PAIR))
        dist.destroy_process_group(group)


def check_a_group_that_ends_after_shutdown_ends_no_other_set():
    # Only the number of a set says which one it is, and the next session may use it again.
    group = torch_sets.ProcessSet(private_sets.FIRST, is_private=True)
    group.session -= 1
    group.close()
    total(make_pairs(), PAIR)


def check_abort_waits_for_nobody():
    if SIZE == 1:
        return
    dist.barrier()
    group = make_pairs()
    if PAIR[-1] == RANK and len(PAIR) > 1:
        works = [dist.all_reduce(torch.ones(1), group=group, async_op=True) for _ in range(2)]
        future = works[0].get_future()
        group.abort()
        for each in (future, works[1].get_future()):
            text = check.raises(RuntimeError, each.wait)
            check.equal(text, "was aborted" in text, True)
        group.shutdown()
    dist.barrier()
    if PAIR[-1] != RANK:
        # The others need not know.
        for _ in range(2):
            tensor = torch.ones(1)
            dist.all_reduce(tensor, group=group)
            same("in the end", tensor, torch.ones(1) * len(PAIR))
    dist.barrier()


def check_ddp_is_told_of_a_late_rank():
    if len(PAIR) == 1:
        return
    dist.barrier()
    group = make_pairs(timeout=timedelta(seconds=2))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1), process_group=group)
    loss = model(torch.ones(1, 3)).sum()
    if PAIR[-1] == RANK:
        text = check.raises(RuntimeError, loss.backward)
        check.equal(text, "Timed out waiting 2000ms" in text, True)
    dist.barrier()
    if PAIR[-1] != RANK:
        loss.backward()
    dist.barrier()


def check_a_member_that_does_not_come_is_named():
    if SIZE == 2:
        return  # groups of all ranks need no process set
    if RANK == 0:
        text = check.raises(
            TimeoutError,
            lambda: dist.new_group(
                [0, 1], timeout=timedelta(milliseconds=50), use_local_synchronization=True
            ),
        )
        check.equal(text, "rank 1 did not come" in text, True)
    else:
        dist.new_group([RANK], use_local_synchronization=True)
    dist.barrier()


def sum_in_set(number, ranks):
    tensor = torch.tensor([float(RANK)])
    name = f"in set {number}"
    engine.submit(Kind.ALLREDUCE, tensor, tensor, name=name, process_set=number).finish()
    same(name, tensor, torch.tensor([float(sum(ranks))]))


def make_and_end_a_set(ranks):
    """Make a set of these ranks, which must agree on it, and return its number."""
    number = private_sets.open_set(ranks, 20)
    sum_in_set(number, ranks)
    private_sets.close_set(number)
    return number


def check_that_attempts_to_make_a_set_can_be_repeated():
    members = EVERYBODY[:3]
    for absent in (members[0], members[-1], members[0]):
        # A leader finds the requests that the others left behind, and they its answers.
        for _ in range(2):
            if RANK in members and absent != RANK:
                check.raises(TimeoutError, lambda: private_sets.open_set(members, 0.1))
            dist.barrier()
        if absent == RANK:
            check.raises(TimeoutError, lambda: private_sets.open_set(members, 0.3))
        dist.barrier()
        for _ in range(3):
            if RANK in members:
                make_and_end_a_set(members)
    dist.barrier()


def check_that_members_that_wait_are_found_by_the_second_attempt_of_the_leader():
    members, late = EVERYBODY[:3], EVERYBODY[:3][-1]
    if late == 0 or SIZE == 2:
        return
    if RANK == 0:
        check.raises(TimeoutError, lambda: private_sets.open_set(members, 0.5))
        dist.send(torch.ones(1), late)
        make_and_end_a_set(members)
    elif RANK in members:
        if late == RANK:
            dist.recv(torch.ones(1), 0)
        make_and_end_a_set(members)
    dist.barrier()


def check_that_the_number_of_a_set_that_one_member_knows_is_not_used_again():
    if RANK < 2:
        make_and_end_a_set([0, 1])
        alone = make_and_end_a_set([1]) if RANK == 1 else None
        number = make_and_end_a_set([0, 1])
        check.equal("the same number", number == alone, False)
    dist.barrier()


def check_split_of_a_group_of_some_ranks_on_gpus():
    some = EVERYBODY[:-1]
    group = dist.new_group(some)
    if RANK in some:
        before = torch_sets._session_with_gpus
        torch_sets._session_with_gpus = mpi_bridge.world.session()
        try:
            part = dist.split_group(group, split_ranks=[some])
            number = process_set_of(part, torch.device("cpu"))
            check.equal("is private", number >= private_sets.FIRST, True)
        finally:
            torch_sets._session_with_gpus = before
        total(part, some)
    else:
        # torch names groups by their number, so all ranks must make equally many.
        dist.new_group([RANK], use_local_synchronization=True)
    dist.barrier()


def check_several_backends_in_one_group():
    for backend in ("cpu:mpi_bridge,cuda:gloo", "cpu:gloo,cuda:mpi_bridge"):
        group = dist.new_group(backend=backend)
        ours = group._get_backend(torch.device("cpu" if backend.startswith("cpu:mpi") else "cuda"))
        # torch's own property calls itself for ever in a subclass, until the stack is full.
        check.equal("options", ours.options.backend, "mpi_bridge")
        for _ in range(3):
            total(group, EVERYBODY)
        ones = [torch.ones(2), torch.ones(3)]
        work = dist.all_reduce(ones[0], group=group, async_op=True)
        dist.all_reduce(ones[1], group=group)
        work.get_future().wait()
        same("asynchronous", torch.cat(ones), torch.full((5,), float(SIZE)))
        if backend.startswith("cpu:mpi"):
            # For a sparse tensor on a GPU, torch calls the second one of these.
            for reduce in (
                lambda tensor, group=group: dist.all_reduce(tensor, group=group),
                lambda tensor, ours=ours: ours.allreduce_sparse([tensor]).wait(),
            ):
                sparse = torch.tensor([0.0, 1.0, float(RANK)]).to_sparse()
                reduce(sparse)
                wanted = torch.tensor([0.0, float(SIZE), float(sum(EVERYBODY))])
                same("sparse", sparse.to_dense(), wanted)
        parts = [torch.empty(1) for _ in EVERYBODY]
        dist.all_gather(parts, torch.tensor([float(RANK)]), group=group)
        same("gathered", torch.cat(parts), torch.arange(float(SIZE)))
        whole = torch.empty(SIZE)
        dist.all_gather_into_tensor(whole, torch.tensor([float(RANK)]), group=group)
        same("gathered", whole, torch.arange(float(SIZE)))
        out = torch.empty(1)
        dist.reduce_scatter_tensor(out, torch.ones(SIZE), group=group)
        same("reduced", out, torch.tensor([float(SIZE)]))
        everyone = [None] * SIZE
        dist.all_gather_object(everyone, RANK, group=group)
        check.equal("objects", everyone, EVERYBODY)
        got = torch.empty(1)
        works = [
            dist.isend(torch.tensor([float(RANK)]), (RANK + 1) % SIZE, group=group),
            dist.irecv(got, (RANK - 1) % SIZE, group=group),
        ]
        for work in works:
            work.wait()
        same("received", got, torch.tensor([(RANK - 1.0) % SIZE]))
        dist.monitored_barrier(group)
        dist.barrier(group)
        dist.destroy_process_group(group)


def check_barriers():
    for group in both():
        dist.barrier(group)
        dist.barrier(group, device_ids=None, async_op=True).wait()
    if RANK == 0:
        limit = timedelta(milliseconds=50)
        text = check.raises(TimeoutError, lambda: dist.barrier(timeout=limit))
        check.equal(text, "Timed out waiting 50ms" in text, True)
        # The barrier goes on, and those of the others end it.
        dist.monitored_barrier()
    else:
        dist.monitored_barrier()
        dist.barrier()
    opts = dist.BarrierOptions() if hasattr(dist, "BarrierOptions") else None
    if opts is not None:
        opts.device_ids = [0]
        dist.group.WORLD.barrier(opts).wait()


def check_exclusive_or():
    bits = torch.tensor([1 << RANK, 5, RANK], dtype=torch.int32)
    expected = 0
    for rank in EVERYBODY:
        expected ^= rank
    wanted = torch.tensor([(1 << SIZE) - 1, 5 * (SIZE % 2), expected], dtype=torch.int32)
    for group in both():
        got = bits.clone()
        dist.all_reduce(got, op=dist.ReduceOp.BXOR, group=group)
        same("BXOR", got, wanted)
        got = bits.clone()
        dist.reduce(got, dst=SIZE - 1, op=dist.ReduceOp.BXOR, group=group)
        if RANK == SIZE - 1:
            same("BXOR at the root", got, wanted)
    out = torch.empty(1, dtype=torch.int32)
    dist.reduce_scatter_tensor(
        out, torch.full((SIZE,), 1 << RANK, dtype=torch.int32), op=dist.ReduceOp.BXOR
    )
    same("BXOR of parts", out, torch.tensor([(1 << SIZE) - 1], dtype=torch.int32))
    check.raises(ValueError, lambda: dist.all_reduce(torch.ones(1), op=dist.ReduceOp.BXOR))


def check_coalescing():
    for group in both():
        tensors = [torch.full((count,), float(RANK)) for count in (1, 2, 3)]
        with dist._coalescing_manager(group=group):
            for tensor in tensors:
                dist.all_reduce(tensor, group=group)
        same("coalesced", torch.cat(tensors), torch.full((6,), float(sum(EVERYBODY))))
    outs = [torch.empty(count * SIZE) for count in (1, 2)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for count, out in zip((1, 2), outs):
            dist.all_gather_into_tensor(out, torch.full((count,), float(RANK)))
    manager.wait()
    same("gathered", outs[1], torch.arange(float(SIZE)).repeat_interleave(2))
    parts = [torch.empty(1), torch.empty(2)]
    with dist._coalescing_manager():
        for count, part in zip((1, 2), parts):
            dist.reduce_scatter_tensor(part, torch.ones(count * SIZE))
    same("reduced", torch.cat(parts), torch.full((3,), float(SIZE)))
    tensors = [torch.ones(1), torch.ones(2)]
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        for tensor in tensors:
            dist.broadcast(tensor.mul_(RANK), src=SIZE - 1)
    manager.wait()
    same("broadcast", torch.cat(tensors), torch.full((3,), SIZE - 1.0))


def check_the_old_names():
    group = dist.group.WORLD
    whole = torch.empty(SIZE)
    group._allgather_base(whole, torch.tensor([float(RANK)])).wait()
    same("_allgather_base", whole, torch.arange(float(SIZE)))
    out = torch.empty(1)
    group._reduce_scatter_base(out, torch.ones(SIZE)).wait()
    same("_reduce_scatter_base", out, torch.tensor([float(SIZE)]))


def check_object_collectives():
    for group in both():
        told = [None] * SIZE if RANK == 0 else None
        dist.gather_object({"rank": RANK}, told, dst=0, group=group)
        if RANK == 0:
            check.equal("gathered", [each["rank"] for each in told], EVERYBODY)
        mine = [None]
        dist.scatter_object_list(
            mine, [f"for {rank}" for rank in EVERYBODY] if RANK == 0 else None, src=0, group=group
        )
        check.equal("scattered", mine[0] == f"for {RANK}", True)


def check_that_a_second_default_group_can_follow():
    """This must be the last check."""
    dist.destroy_process_group()
    dist.init_process_group("cpu:mpi_bridge,cuda:gloo")
    total(None, EVERYBODY)
    total(make_pairs(), PAIR)
    dist.barrier()
    dist.destroy_process_group()
    check.equal("initialised", mpi_bridge.is_initialized(), True)
