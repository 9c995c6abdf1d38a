# SPDX-License-Identifier: Apache-2.0
"""horovod.torch's operations that move rows between ranks, against values computed here.

Breaks when uneven parts, roots, splits or groups go wrong.
"""

import check
import numpy as np
import rows
import torch
from torch_values import MEAN, RANK, SIZE, base, mine

import horovod.torch as hvd


def check_allgather():
    uneven = torch.full((RANK % 3 + 1, 2), float(RANK))
    expected = torch.cat([torch.full((r % 3 + 1, 2), float(r)) for r in range(SIZE)])
    check.equal("uneven", hvd.allgather(uneven), expected)
    check.equal("numbers", hvd.allgather(torch.tensor(RANK)), np.arange(SIZE))
    check.equal("async", hvd.synchronize(hvd.allgather_async(uneven, name="g")), expected)
    some = torch.ones(1 if RANK == 0 else 0, 2)
    check.equal("of one rank", hvd.allgather(some), [[1.0, 1.0]])
    for dtype in (torch.uint8, torch.int16, torch.bool, torch.bfloat16, torch.complex64):
        result = hvd.allgather(torch.ones(1, 2, dtype=dtype))
        check.equal(f"of {dtype}", result.to(torch.complex64), np.ones((SIZE, 2)))


def check_grouped_allgather():
    tensors = [torch.full((RANK + 1,), RANK), torch.full((1, 2), float(RANK))]
    first = np.repeat(np.arange(SIZE), np.arange(SIZE) + 1)
    second = np.repeat(np.arange(SIZE), 2).reshape(SIZE, 2)
    for result in (
        hvd.grouped_allgather(tensors),
        hvd.synchronize(hvd.grouped_allgather_async(tensors, name="group")),
    ):
        check.equal("first", result[0], first)
        check.equal("second", result[1], second)


def check_broadcast():
    for root in range(SIZE):
        tensor = mine()
        check.equal(f"from {root}", hvd.broadcast(tensor, root), base() + root)
        check.equal("the argument is left alone", tensor, mine())
        handle = hvd.broadcast_async(tensor, root, name="b")
        check.equal("async", hvd.synchronize(handle), base() + root)
        hvd.synchronize(hvd.broadcast_async_(tensor, root))
        check.equal("async in place", tensor, base() + root)
        tensor = mine().t()
        check.equal("in place", hvd.broadcast_(tensor, root) is tensor, True)
        check.equal("in place", tensor, (base() + root).t())
    booleans = hvd.broadcast(torch.tensor([RANK == 0] * 3), 0)
    check.equal("booleans", booleans, [True] * 3)


def check_tensors_whose_memory_has_the_conjugate_or_the_negative():
    number = torch.tensor([1 + 2j])
    conjugate = number.conj()
    check.equal("gathered", hvd.allgather(conjugate), np.full(SIZE, 1 - 2j))
    check.equal("broadcast", hvd.broadcast(conjugate if RANK == 0 else number, 0), [1 - 2j])
    several = number.repeat(SIZE).conj()
    check.equal("it is marked", several.is_conj(), True)
    check.equal("exchanged", hvd.alltoall(several), [1 - 2j] * SIZE)
    target = torch.tensor([complex(RANK, 1)])
    hvd.broadcast_(target.conj(), 0)
    check.equal("in place", target, [1j])
    negative = conjugate.imag
    check.equal("it is marked", negative.is_neg() and negative.is_contiguous(), True)
    check.equal("the largest", hvd.allreduce(negative, op=hvd.Max), [-2.0])
    own = torch.tensor([complex(0, RANK)])
    hvd.allreduce_(own.conj().imag, op=hvd.Max)
    check.equal("the largest, in place", own.imag, [0.0])


def check_alltoall():
    splits = [(RANK + r) % 2 + 1 for r in range(SIZE)]
    sent = torch.cat([torch.full((n,), RANK * 100 + r) for r, n in enumerate(splits)])
    parts = [torch.full(((r + RANK) % 2 + 1,), r * 100 + RANK) for r in range(SIZE)]
    for received, counts in (
        hvd.alltoall(sent, splits=torch.tensor(splits)),
        hvd.synchronize(hvd.alltoall_async(sent, splits=splits, name="a")),
    ):
        check.equal("uneven", received, torch.cat(parts))
        check.equal("counts", counts, [len(part) for part in parts])
        check.equal("type of counts", str(counts.dtype), "torch.int32")
    even = torch.arange(2 * SIZE).view(SIZE, 2) + 100 * RANK
    expected = [[2 * RANK + 100 * r, 2 * RANK + 1 + 100 * r] for r in range(SIZE)]
    check.equal("even", hvd.alltoall(even), expected)
    received, counts = hvd.synchronize(hvd.alltoall_async(even))
    check.equal("even, async", received, expected)
    check.equal("counts of even parts", counts, [1] * SIZE)
    check.raises(hvd.HorovodInternalError, lambda: hvd.alltoall(even, splits=[1] * (SIZE + 1)))
    for empty in ([], torch.tensor([], dtype=torch.int32)):
        received, counts = hvd.alltoall(even, splits=empty)
        check.equal("empty splits", received, expected)
        check.equal("counts of empty splits", counts, [1] * SIZE)


def check_rows_beyond_the_splits_are_not_sent():
    rows = torch.full((SIZE + 2, 2), float(RANK), requires_grad=True)
    splits = torch.ones(SIZE, dtype=torch.int32)
    received, counts = hvd.alltoall(rows, splits=splits)
    check.equal("received", received.detach()[:, 0], np.arange(SIZE))
    check.equal("counts", counts, [1] * SIZE)
    received.sum().backward()
    check.equal("their gradient", rows.grad[:, 0], [1.0] * SIZE + [0.0] * 2)
    received, _ = hvd.synchronize(hvd.alltoall_async(rows.detach(), splits=splits))
    check.equal("async", received[:, 0], np.arange(SIZE))
    nothing, _ = hvd.alltoall(rows.detach(), splits=[0] * SIZE)
    check.equal("no row", nothing.shape, (0, 2))


def check_splits_of_a_wrong_type_are_a_value_error():
    tensor = torch.zeros(SIZE)
    for wrong in (
        torch.ones(SIZE),
        torch.ones(SIZE, dtype=torch.bool),
        torch.tensor(SIZE),
        [1.0] * SIZE,
        ["1"] * SIZE,
        SIZE,
        [2] * SIZE,
    ):
        check.raises(ValueError, lambda wrong=wrong: hvd.alltoall(tensor, splits=wrong))
        check.raises(ValueError, lambda wrong=wrong: hvd.alltoall_async(tensor, splits=wrong))
    for right in (np.ones(SIZE, np.int32), [np.int64(1)] * SIZE, list(torch.ones(SIZE).int())):
        check.equal("numbers of rows", hvd.alltoall(tensor, splits=right)[1], [1] * SIZE)


def check_reducescatter():
    whole = torch.arange(2.0 * (2 * SIZE + 1)).view(-1, 2)
    first = 0 if RANK == 0 else 2 * RANK + 1
    share = whole[first : first + (3 if RANK == 0 else 2)]
    check.equal("average", hvd.reducescatter(whole + RANK), share + MEAN)
    check.equal("sum", hvd.reducescatter(whole, op=hvd.Sum, name="r"), share * SIZE)
    scaled = hvd.reducescatter(whole, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5)
    check.equal("scaled", scaled, share * SIZE)
    check.equal("max", hvd.reducescatter(whole + RANK, op=hvd.Max), share + SIZE - 1)
    handle = hvd.reducescatter_async(whole, op=hvd.Sum)
    check.equal("async", hvd.synchronize(handle), share * SIZE)
    halves = hvd.reducescatter(whole, op=hvd.Sum, compression=hvd.Compression.fp16)
    check.equal("compressed", halves, share * SIZE)
    for results in (
        hvd.grouped_reducescatter([whole, whole + 1.0], op=hvd.Sum),
        hvd.synchronize(hvd.grouped_reducescatter_async([whole, whole + 1.0], op=hvd.Sum)),
    ):
        check.equal("grouped", results[0], share * SIZE)
        check.equal("grouped", results[1], (share + 1.0) * SIZE)


def check_reducescatter_of_a_number_is_refused():
    number, rows_of_one = torch.tensor(1.0), torch.ones(SIZE)
    with_gradient = torch.tensor(1.0, requires_grad=True)
    group = [rows_of_one, number]
    for wrong in (
        lambda: hvd.reducescatter(number),
        lambda: hvd.reducescatter(with_gradient),
        lambda: hvd.reducescatter_async(number),
        lambda: hvd.grouped_reducescatter(group, name="group"),
        lambda: hvd.grouped_reducescatter([rows_of_one, with_gradient], name="group"),
        lambda: hvd.grouped_reducescatter_async(group, name="group"),
    ):
        check.raises(ValueError, wrong)
    results = hvd.grouped_reducescatter([rows_of_one, rows_of_one], name="group", op=hvd.Sum)
    check.equal("the name is free", results[1], [SIZE])


if __name__ == "__main__":
    rows.run(globals())
