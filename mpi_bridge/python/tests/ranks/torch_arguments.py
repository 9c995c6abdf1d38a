# SPDX-License-Identifier: Apache-2.0
"""Arguments of torch.distributed that are wrong, or unusual: an error, and never a wrong value."""

import check
import torch
import torch.distributed as dist
from torch_default_group import RANK, SIZE, same

import mpi_bridge

NEXT, BEFORE = (RANK + 1) % SIZE, (RANK - 1) % SIZE


def refused(kind, part_of_text, action):
    """The action fails on every rank with this error, and the group can be used afterwards."""
    text = check.raises(kind, action)
    if part_of_text not in text:
        raise check.WrongValueError(f"rank {RANK}: {part_of_text!r} is not in {text!r}")
    ones = torch.ones(2)
    dist.all_reduce(ones)
    same("an operation after the error", ones, torch.full((2,), float(SIZE)))


def zeros(elements):
    return [torch.zeros(elements) for _ in range(SIZE)]


def negated(elements=2):
    """A view of which the memory holds the negative values, one after the other."""
    return torch._neg_view(torch.full((elements,), 3.0 + RANK))


def check_results_with_room_for_more_than_comes():
    ones, root = torch.ones(3), SIZE - 1
    refused(
        mpi_bridge.MismatchError,
        "all_gather: rank 0 sent 12 bytes where 16 were expected",
        lambda: dist.all_gather(zeros(4), ones),
    )
    refused(
        mpi_bridge.MismatchError,
        "all_to_all: rank 0 sent 12 bytes where 16 were expected",
        lambda: dist.all_to_all(zeros(4), [ones] * SIZE),
    )
    refused(
        mpi_bridge.MismatchError,
        f"scatter: rank {root} sent 12 bytes where 16 were expected",
        lambda: dist.scatter(torch.zeros(4), [ones] * SIZE if root == RANK else None, root),
    )
    if root == RANK:
        gather = check.raises(mpi_bridge.MismatchError, lambda: dist.gather(ones, zeros(4), root))
        check.equal("gather", "rank 0 sent 12 bytes where 16 were expected" in gather, True)
    else:
        dist.gather(ones, None, root)
    work = dist.all_gather(zeros(4), ones, async_op=True)
    refused(mpi_bridge.MismatchError, "where 16 were expected", work.wait)


def check_rows_that_go_to_other_places_than_expected():
    if SIZE == 1:
        return
    # Each rank sends a row to each rank, and expects none of the second one.
    expected = [2, 0] + [1] * (SIZE - 2)
    refused(
        mpi_bridge.MismatchError,
        "all_to_all: rank 0 sent 4 bytes where 8 were expected",
        lambda: dist.all_to_all_single(torch.zeros(SIZE), torch.ones(SIZE), expected, [1] * SIZE),
    )


def check_splits_that_do_not_fit_the_rows():
    ones, rows = torch.ones(SIZE), [1] * SIZE
    for received, sent, text in (
        ([2] * SIZE, rows, "do not divide the tensor's"),
        (rows, [2] * SIZE, "do not divide the tensor's"),
        (rows, [-1] + [1] * (SIZE - 1), "do not divide the tensor's"),
        ([*rows, 0], rows, "splits for"),
        (rows, [*rows, 0], "splits for"),
    ):
        refused(
            ValueError,
            text,
            lambda received=received, sent=sent: dist.all_to_all_single(
                torch.zeros(SIZE), ones, received, sent
            ),
        )


def check_results_of_another_type():
    group, ones, whole = dist.group.WORLD, torch.ones(3), torch.zeros(3 * SIZE).int()
    refused(ValueError, "same type", lambda: dist.all_gather_into_tensor(whole, ones))
    rows = torch.ones(SIZE)
    others = torch.zeros(SIZE).int()
    refused(ValueError, "same type", lambda: group.alltoall_base(others, rows, [], []))


def check_a_part_of_a_reduction_without_a_place():
    parts = [torch.ones(3) for _ in range(SIZE)]
    refused(ValueError, "4 elements", lambda: dist.reduce_scatter(torch.zeros(4), parts))


def check_parts_of_a_reduction_of_bits():
    xor, ones = dist.ReduceOp.BXOR, torch.ones(2 * SIZE, dtype=torch.int32)
    longs = torch.zeros(2, dtype=torch.int64)
    refused(ValueError, "same type", lambda: dist.reduce_scatter_tensor(longs, ones, xor))
    if SIZE == 1:
        return
    # Rank 0 expects three elements of each rank.
    parts = [torch.ones(3 if RANK == rank == 0 else 2).int() for rank in range(SIZE)]
    output = torch.zeros_like(parts[RANK])
    if RANK == 0:
        text = check.raises(
            mpi_bridge.MismatchError, lambda: dist.reduce_scatter(output, parts, xor)
        )
        check.equal("bits", "rank 1 sent 8 bytes where 12 were expected" in text, True)
        return
    dist.reduce_scatter(output, parts, xor)
    same("of the others", output, torch.full((2,), SIZE % 2).int())


def check_ranks_that_are_not_in_the_group():
    ones = torch.ones(3)
    for rank in (-1, SIZE):
        for action in (
            lambda rank=rank: dist.broadcast(ones, group_src=rank),
            lambda rank=rank: dist.reduce(ones, group_dst=rank),
            lambda rank=rank: dist.reduce(ones.int(), group_dst=rank, op=dist.ReduceOp.BXOR),
            lambda rank=rank: dist.gather(ones, None, group_dst=rank),
            lambda rank=rank: dist.scatter(ones, None, group_src=rank),
            lambda rank=rank: dist.isend(ones, group_dst=rank),
            lambda rank=rank: dist.group.WORLD.recv([ones], rank, 0),
        ):
            refused(ValueError, f"no rank {rank}", action)


def check_negative_tags():
    if SIZE == 1:
        return
    ones = torch.ones(3)
    refused(ValueError, "negative", lambda: dist.isend(ones, NEXT, tag=-1))
    refused(ValueError, "negative", lambda: dist.irecv(ones, BEFORE, tag=-1))
    refused(ValueError, "negative", lambda: dist.irecv(ones, tag=-1))


def check_negated_views_are_sent():
    expected = [torch.full((2,), -3.0 - rank) for rank in range(SIZE)]
    lists = zeros(2)
    dist.all_gather(lists, negated())
    whole = torch.zeros(2 * SIZE)
    dist.all_gather_into_tensor(whole, negated())
    swapped = zeros(2)
    dist.all_to_all(swapped, [negated() for _ in range(SIZE)])
    gathered = zeros(2) if RANK == 0 else None
    dist.gather(negated(), gathered, 0)
    for rank in range(SIZE):
        same(f"all_gather of rank {rank}", lists[rank], expected[rank])
        same(f"all_gather_into_tensor of rank {rank}", whole.chunk(SIZE)[rank], expected[rank])
        same(f"all_to_all of rank {rank}", swapped[rank], expected[rank])
        if gathered is not None:
            same(f"gather of rank {rank}", gathered[rank], expected[rank])
    own = torch.zeros(2)
    dist.scatter(own, [negated() for _ in range(SIZE)] if RANK == 0 else None, 0)
    same("scatter", own, expected[0])
    part = torch.zeros(2)
    dist.reduce_scatter(part, [negated() for _ in range(SIZE)], dist.ReduceOp.MAX)
    same("reduce_scatter", part, expected[0])
    dist.reduce_scatter_tensor(part.zero_(), negated(2 * SIZE), dist.ReduceOp.MIN)
    same("reduce_scatter_tensor", part, expected[-1])


def check_results_in_negated_views():
    lists = [torch._neg_view(torch.zeros(2)) for _ in range(SIZE)]
    dist.all_gather(lists, torch.full((2,), 1.0 + RANK))
    for rank in range(SIZE):
        same(f"rank {rank}", lists[rank].resolve_neg(), torch.full((2,), 1.0 + rank))


def check_results_in_the_memory_that_is_sent():
    whole = torch.arange(3.0 * SIZE) + RANK
    own = whole[3 * RANK : 3 * RANK + 3]
    expected = SIZE * torch.arange(3.0 * RANK, 3.0 * RANK + 3) + sum(range(SIZE))
    dist.reduce_scatter_tensor(own, whole)
    same("reduce_scatter_tensor", own, expected)
    for place in (RANK, (RANK + 1) % SIZE):
        whole = torch.full((3 * SIZE,), -1.0)
        part = whole[3 * place : 3 * place + 3]
        part.fill_(RANK)
        dist.all_gather_into_tensor(whole, part)
        same(f"all_gather_into_tensor at {place}", whole, torch.arange(3.0 * SIZE) // 3)
    rows = torch.arange(float(SIZE)) + 10 * RANK
    dist.all_to_all_single(rows, rows)
    same("all_to_all_single", rows, 10 * torch.arange(float(SIZE)) + RANK)
