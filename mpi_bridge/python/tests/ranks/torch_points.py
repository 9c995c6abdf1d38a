# SPDX-License-Identifier: Apache-2.0
"""torch.distributed's messages between two ranks; the same with gloo, where both have them."""

import threading
import weakref
from datetime import timedelta

import check
import torch
import torch.distributed as dist
from torch_default_group import GLOO, RANK, SIZE, both, same

import mpi_bridge
from mpi_bridge.torch_distributed import cpp_backend

NEXT, BEFORE = (RANK + 1) % SIZE, (RANK - 1) % SIZE


def check_send_and_receive():
    for group in both():
        for dtype in (torch.float32, torch.int64, torch.complex64, torch.bool):
            out = torch.arange(5).add(RANK).to(dtype)
            got = torch.zeros(5, dtype=dtype)
            # A send is done only when it is received, so the ranks cannot all send first.
            if RANK % 2 == 0:
                dist.send(out, NEXT, group=group)
                source = dist.recv(got, BEFORE, group=group)
            else:
                source = dist.recv(got, BEFORE, group=group)
                dist.send(out, NEXT, group=group)
            check.equal("the sender", source, BEFORE)
            same(f"from the rank before, {dtype}", got, torch.arange(5).add(BEFORE).to(dtype))


def check_tags_and_order():
    for group in both():
        parts = [torch.tensor([10 * RANK + number]) for number in range(6)]
        works = [
            dist.isend(part, NEXT, group=group, tag=number % 2) for number, part in enumerate(parts)
        ]
        got = [torch.zeros(1, dtype=torch.int64) for _ in range(6)]
        # Those of tag 1 first: each tag keeps its own order.
        for number in (1, 3, 5, 0, 2, 4):
            dist.recv(got[number], BEFORE, group=group, tag=number % 2)
        for work in works:
            work.wait()
        expected = [torch.tensor([10 * BEFORE + number]) for number in range(6)]
        same("by tag", torch.cat(got), torch.cat(expected))


def check_large_and_strided_tensors_and_none():
    large = torch.arange(1_000_000, dtype=torch.float32).add(RANK).view(1000, 1000)
    got = torch.zeros(1000, 2000)[:, ::2]
    works = [dist.isend(large.t(), NEXT), dist.irecv(got, BEFORE)]
    for work in works:
        work.wait()
    wanted = torch.arange(1_000_000, dtype=torch.float32).add(BEFORE).view(1000, 1000)
    same("transposed, into a strided tensor", got, wanted.t())
    works = [dist.isend(torch.empty(0), NEXT), dist.irecv(torch.empty(0), BEFORE)]
    for work in works:
        work.wait()


def check_conjugated_and_negated_views():
    # Neither has its elements in memory: the program sees the conjugate, or the negative.
    values = torch.tensor([1 + 2j, 3 - 4j]).add(RANK)
    theirs = torch.tensor([1 + 2j, 3 - 4j]).add(BEFORE)
    conjugated, negated = values.conj(), values.conj().imag
    check.equal("lazy", [conjugated.is_conj(), negated.is_neg()], [True, True])
    for out, wanted in ((conjugated, theirs.conj()), (negated, theirs.conj().imag)):
        plain = torch.zeros(wanted.shape, dtype=wanted.dtype)
        view = torch.zeros(2, dtype=torch.complex64)
        place = view.conj() if wanted.is_complex() else view.conj().imag
        if cpp_backend.module() is not None:
            # torch hands a copy of such a view to every backend in C++, also to gloo, and drops it.
            place = torch.zeros_like(plain)
        # dist.isend() itself refuses conjugated tensors.
        group = dist.group.WORLD
        works = [group.send([out], NEXT, tag) for tag in (1, 2)]
        works += [group.recv([plain], BEFORE, 1), group.recv([place], BEFORE, 2)]
        for work in works:
            work.wait()
        same("of a view", plain, wanted.resolve_conj().resolve_neg())
        same("of a view, into a view", place, wanted)


def check_tensors_that_are_given_other_memory():
    # The message has the memory of the time of the call. That of a long tensor is returned to the
    # system as soon as nobody keeps it.
    count = 4_000_000
    out, got = torch.full((count,), float(RANK)), torch.zeros(count)
    memory = got[:]
    works = [dist.isend(out, NEXT), dist.irecv(got, BEFORE)]
    out.data = torch.full((1,), -1.0)
    got.data = torch.full((1,), -1.0)
    others = [torch.full((count,), -2.0) for _ in range(2)]
    for work in works:
        work.wait()
    same("what was sent", memory, torch.full((count,), float(BEFORE)))
    same("the new memory", torch.cat([out, got]), torch.full((2,), -1.0))
    same("other tensors", others[0], others[1])


def check_from_any_rank():
    if RANK == 0:
        seen = []
        for _ in range(SIZE - 1):
            got = torch.zeros(1, dtype=torch.int64)
            seen.append(dist.recv(got))
            check.equal("what it sent", got.item(), 100 + seen[-1])
        check.equal("all senders", sorted(seen), list(range(1, SIZE)))
    else:
        dist.send(torch.tensor([100 + RANK]), 0)


def check_from_any_rank_of_a_group_in_another_order():
    order = list(reversed(range(SIZE)))[: max(2, SIZE - 1)]  # with 4 ranks, rank 0 is not in it
    for backend in ("mpi_bridge", "gloo"):
        group = dist.new_group(order, sort_ranks=False, backend=backend)
        if order[0] == RANK:
            for number in range(1, len(order)):
                got = torch.zeros(1, dtype=torch.int64)
                sender = dist.recv(got, group=group, tag=number)
                check.equal(f"the sender over {backend}", sender, order[number])
                check.equal("what it sent", got.item(), sender)
            got = torch.zeros(1, dtype=torch.int64)
            work = group.recv_anysource([got], 0)
            work.wait()
            check.equal(f"its place over {backend}", work._source_rank(), len(order) - 1)
        elif RANK in order:
            dist.send(torch.tensor([RANK]), order[0], group=group, tag=order.index(RANK))
            if order[-1] == RANK:
                dist.send(torch.tensor([RANK]), order[0], group=group)


def check_works_that_are_done_keep_no_tensors():
    kept = []
    for _ in range(3):
        out, got = torch.full((2,), float(RANK)), torch.zeros(2)
        kept += [weakref.ref(out), weakref.ref(got)]
        works = [dist.isend(out, NEXT), dist.irecv(got, BEFORE)]
        for work in works:
            work.wait()
        summed = torch.ones(3 + len(kept))  # no length repeats, so the name is outside a cycle
        kept.append(weakref.ref(summed))
        dist.all_reduce(summed)
    del out, got, works, work, summed
    check.equal("kept", sum(each() is not None for each in kept), 0)


def check_batches():
    for group in both():
        out = torch.full((3,), float(RANK))
        left, right = torch.empty(3), torch.empty(3)
        operations = [
            dist.P2POp(dist.irecv, left, BEFORE, group),
            dist.P2POp(dist.isend, out, NEXT, group, tag=0),
            dist.P2POp(dist.irecv, right, NEXT, group, tag=1),
            dist.P2POp(dist.isend, out, BEFORE, group, tag=1),
        ]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        same("left", left, torch.full((3,), float(BEFORE)))
        same("right", right, torch.full((3,), float(NEXT)))


def check_futures_and_completion():
    got = torch.zeros(2)
    receive = dist.irecv(got, BEFORE, tag=7)
    future = receive.get_future().then(lambda done: done.value()[0] + 1)
    check.equal("not yet", receive.is_completed(), False)
    # A collective does not wait for the message, and no rank sends before it.
    dist.barrier()
    send = dist.isend(torch.full((2,), float(RANK)), NEXT, tag=7)
    same("through a future", future.wait(), torch.full((2,), float(BEFORE + 1)))
    send.wait()
    check.equal("completed", [send.is_completed(), receive.is_success()], [True, True])


# Breaks when synchronize(), which torch calls with the interpreter lock, keeps it while it waits
# for the thread that completes the future, and that one looks for signals.
def check_synchronize_beside_a_future():
    got = torch.zeros(2)
    receive = dist.irecv(got, BEFORE, tag=11)
    future = receive.get_future()
    # Later than the first look for signals.
    ends = threading.Timer(1.0, lambda: dist.send(torch.ones(2), NEXT, tag=11))
    ends.start()
    receive.synchronize()
    ends.join()
    future.wait()
    same("received", got, torch.ones(2))


def check_works_that_nobody_keeps():
    out = [torch.tensor([RANK + number]) for number in range(40)]
    for each in out:
        dist.isend(each, NEXT)
    got = [torch.zeros(1, dtype=torch.int64) for _ in out]
    for each in got:
        dist.irecv(each, BEFORE)
    last = torch.zeros(1, dtype=torch.int64)
    send = dist.isend(torch.tensor([-1]), NEXT)
    dist.recv(last, BEFORE)
    send.wait()
    dist.barrier()
    same("the last one", last, torch.tensor([-1]))
    # Messages keep their order, so these have come before it, but perhaps not been looked after.
    for each in cpp_backend.works_in_flight(dist.group.WORLD):
        each.wait()
    check.equal("kept", cpp_backend.works_in_flight(dist.group.WORLD), [])
    same("all", torch.cat(got), torch.arange(40) + BEFORE)


def check_objects():
    if RANK == 0:
        for member in range(1, SIZE):
            dist.send_object_list([{"for": member}, "x" * member], member)
    else:
        got = [None, None]
        dist.recv_object_list(got, 0)
        check.equal("objects", got == [{"for": RANK}, "x" * RANK], True)


def check_lengths_that_differ():
    if RANK > 1:
        return
    other = 1 - RANK
    if RANK == 0:
        text = check.raises(mpi_bridge.MismatchError, lambda: dist.send(torch.ones(4), other))
        check.equal(text, "rank 1" in text and "expected 8 bytes where 16" in text, True)
        dist.send(torch.ones(1), other)
    else:
        got = torch.zeros(2)
        text = check.raises(mpi_bridge.MismatchError, lambda: dist.recv(got, other))
        check.equal(text, "rank 0" in text and "16 bytes where 8" in text, True)
        same("untouched", got, torch.zeros(2))
        dist.recv(got[:1], other)
        same("the next one", got, torch.tensor([1.0, 0.0]))


def check_waits_with_a_time_limit():
    work = dist.irecv(torch.zeros(1), BEFORE, tag=9)
    check.raises(TimeoutError, lambda: work.wait(timedelta(milliseconds=20)))
    dist.barrier()
    send = dist.isend(torch.ones(1), NEXT, tag=9)
    work.wait()
    send.wait()


def check_messages_to_oneself():
    check.raises(ValueError, lambda: dist.send(torch.ones(1), RANK))
    text = check.raises(ValueError, lambda: dist.isend(torch.ones(1), RANK))
    check.equal(text, "itself" in text, True)


def check_lists_of_tensors_are_gathered_by_rank():
    shapes = [(2, 2), (1,), (3,)]
    inputs = [torch.full(shape, float(RANK + 10 * place)) for place, shape in enumerate(shapes)]
    outputs = [[torch.zeros(shape) for shape in shapes] for _ in range(SIZE)]
    dist.all_gather_coalesced(outputs, inputs)
    for rank, of_rank in enumerate(outputs):
        for place, tensor in enumerate(of_rank):
            check.equal("gathered", tensor, torch.full(shapes[place], float(rank + 10 * place)))


def check_monitored_barrier():
    dist.monitored_barrier()
    dist.monitored_barrier(GLOO)
    if RANK == 0:
        limit = timedelta(milliseconds=200)
        text = check.raises(
            RuntimeError, lambda: dist.monitored_barrier(timeout=limit, wait_all_ranks=True)
        )
        ranks = "Ranks" if SIZE > 2 else "Rank"
        missing = f"{ranks} {', '.join(map(str, range(1, SIZE)))} failed to pass monitoredBarrier"
        check.equal(text, missing in text, True)
        text = check.raises(RuntimeError, lambda: dist.monitored_barrier(timeout=timedelta(0)))
        check.equal(text, "Rank 0 timed out in monitoredBarrier" in text, True)
    dist.barrier()
    if RANK != 0:
        limit = timedelta(milliseconds=20)
        text = check.raises(RuntimeError, lambda: dist.monitored_barrier(timeout=limit))
        check.equal(text, f"Rank {RANK} successfully reached monitoredBarrier" in text, True)
        check.raises(RuntimeError, lambda: dist.monitored_barrier(timeout=limit))
    # What came too late does not count here.
    dist.monitored_barrier()
