# SPDX-License-Identifier: Apache-2.0
"""horovod.torch's allreduce in all its forms, against values computed here.

Breaks when operations, scaling, compression, names, groups or sparse tensors go wrong.
"""

import itertools

import check
import numpy as np
import rows
import torch
from torch_values import MEAN, RANK, SIZE, TOTAL, base, mine

import horovod.torch as hvd


def check_allreduce():
    tensor = mine()
    check.equal("average", hvd.allreduce(tensor), base() + MEAN)
    check.equal("sum", hvd.allreduce(tensor, op=hvd.Sum), base() * SIZE + TOTAL)
    check.equal("average=False", hvd.allreduce(tensor, average=False), base() * SIZE + TOTAL)
    check.equal("average=True", hvd.allreduce(tensor, average=True, name="x"), base() + MEAN)
    check.equal("min", hvd.allreduce(tensor, op=hvd.Min), base())
    check.equal("max", hvd.allreduce(tensor, op=hvd.Max), base() + SIZE - 1)
    product = hvd.allreduce(torch.full((3,), 2.0), op=hvd.Product)
    check.equal("product", product, [2.0**SIZE] * 3)
    scaled = hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.25)
    check.equal("scaled", scaled, (base() * SIZE + TOTAL) / 2)
    check.equal("of a transposed tensor", hvd.allreduce(tensor.t()), (base() + MEAN).t())
    check.equal("of a number", hvd.allreduce(torch.tensor(float(RANK))), MEAN)
    check.equal("of nothing", hvd.allreduce(torch.empty(0, 3)), np.empty((0, 3)))
    check.equal("the argument is left alone", tensor, mine())
    check.raises(ValueError, lambda: hvd.allreduce(tensor, average=True, op=hvd.Sum))


def check_allreduce_of_every_type():
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        result = hvd.allreduce(torch.full((5,), float(RANK), dtype=dtype), op=hvd.Sum)
        check.equal(f"sum of {dtype}", result.double(), [TOTAL] * 5)
        check.equal("type", str(result.dtype), str(dtype))
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        result = hvd.allreduce(torch.full((5,), 7 + RANK, dtype=dtype))
        check.equal(f"average of {dtype}", result, [int(7 + MEAN)] * 5)
    check.equal("49 of 49", hvd.allreduce(torch.full((1,), 49)), [49])


def check_compression():
    for compression in (hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16):
        result = hvd.allreduce(mine(), compression=compression)
        check.equal("type after compression", str(result.dtype), "torch.float32")
        check.close("compressed average", result, base() + MEAN, 0.05)
        (result,) = hvd.grouped_allreduce([mine()], compression=compression)
        check.close("compressed in a group", result, base() + MEAN, 0.05)
    integers = hvd.allreduce(torch.tensor([3]), compression=hvd.Compression.fp16)
    check.equal("integers are not compressed", integers, [3])


def check_allreduce_async():
    handle = hvd.allreduce_async(mine(), name="later")
    second = hvd.allreduce_async(mine(), name="also", op=hvd.Sum)
    check.equal("a handle is a number", isinstance(handle, int), True)
    check.equal("second", hvd.synchronize(second), base() * SIZE + TOTAL)
    result = hvd.synchronize(handle)
    check.equal("first", result, base() + MEAN)
    check.equal("synchronized twice", hvd.synchronize(handle) is None, True)
    check.raises(ValueError, lambda: hvd.poll(handle))


def check_poll():
    handle = hvd.allreduce_async(mine(), name="polled")
    for _ in itertools.count():
        if hvd.poll(handle):
            break
    check.equal("polled", hvd.synchronize(handle), base() + MEAN)


def check_allreduce_in_place():
    for tensor in (mine(), mine().t().contiguous().t(), torch.zeros(2, 6)[:, ::2].add_(mine())):
        result = hvd.allreduce_(tensor)
        check.equal("in place", tensor, base() + MEAN)
        check.equal("what is returned", result is tensor, True)
    parameter = torch.nn.Parameter(mine())
    hvd.allreduce_(parameter)
    check.equal("a parameter", parameter.detach(), base() + MEAN)


def check_allreduce_async_in_place():
    tensor = mine()
    handle = hvd.allreduce_async_(tensor, op=hvd.Sum)
    check.equal("what is returned", hvd.synchronize(handle) is tensor, True)
    check.equal("in place", tensor, base() * SIZE + TOTAL)


def check_order_does_not_matter():
    names = [f"tensor {i}" for i in range(6)]
    order = names if RANK % 2 == 0 else names[::-1]
    handles = {
        name: hvd.allreduce_async(torch.full((3,), float(names.index(name))), name=name, op=hvd.Sum)
        for name in order
    }
    for name in order:
        check.equal(name, hvd.synchronize(handles[name]), [names.index(name) * SIZE] * 3)


def check_grouped_allreduce():
    tensors = [mine(), torch.full((4,), RANK, dtype=torch.int64), mine().double()]
    expected = [base() * SIZE + TOTAL, [TOTAL] * 4, base() * SIZE + TOTAL]
    for results in (
        hvd.grouped_allreduce(tensors, op=hvd.Sum),
        hvd.grouped_allreduce(tensors, op=hvd.Sum, name="group"),
        hvd.synchronize(hvd.grouped_allreduce_async(tensors, op=hvd.Sum)),
        hvd.grouped_allreduce_([t.clone() for t in tensors], op=hvd.Sum),
        hvd.synchronize(hvd.grouped_allreduce_async_([t.clone() for t in tensors], op=hvd.Sum)),
    ):
        for result, wanted in zip(results, expected):
            check.equal("of a group", result, wanted)
    check.equal("of an empty group", len(hvd.grouped_allreduce([])), 0)


def check_sparse_allreduce():
    def sparse():
        indices = torch.tensor([[0, RANK + 1, 0]])
        return torch.sparse_coo_tensor(indices, torch.ones(3, 2), (SIZE + 1, 2))

    expected = np.ones((SIZE + 1, 2))
    expected[0] = 2 * SIZE
    check.equal("sum", hvd.sparse_allreduce(sparse(), op=hvd.Sum).to_dense(), expected)
    finish = hvd.sparse_allreduce_async(sparse(), name="sparse")
    check.equal("average", finish().to_dense(), expected / SIZE)
    check.equal("by allreduce", hvd.allreduce(sparse(), op=hvd.Sum).to_dense(), expected)
    empty = torch.sparse_coo_tensor(torch.empty((1, 0)), torch.empty((0, 2)), (SIZE + 1, 2))
    result = hvd.sparse_allreduce(sparse() if RANK == 0 else empty, op=hvd.Sum).to_dense()
    check.equal("of one rank", result[:2], [[2, 2], [1, 1]])


def check_sparse_allreduce_of_short_numbers():
    for dtype, value in ((torch.float16, 65504.0), (torch.bfloat16, 255.0)):
        values = torch.tensor([value, value], dtype=dtype)
        result = hvd.sparse_allreduce(torch.sparse_coo_tensor([[0, 2]], values, (3,))).coalesce()
        check.equal("type", str(result.dtype), str(dtype))
        check.equal(f"average of {dtype}", result.values().float(), [value, value])


def check_sparse_tensors_of_other_shapes_reach_no_other_memory():
    places = SIZE * 10_000_000 if RANK else 3
    tensor = torch.sparse_coo_tensor([[places - 1]], torch.ones(1), (places,))
    finish = hvd.sparse_allreduce_async(tensor, op=hvd.Sum)
    if RANK or SIZE == 1:
        finish()
    else:
        check.raises(RuntimeError, finish)


def reference_adasum(vectors):
    vectors = list(vectors)
    while len(vectors) > 1:
        combined = []
        for a, b in zip(vectors[0::2], vectors[1::2]):
            ab = float(a @ b)
            combined.append((1 - ab / (2 * float(a @ a))) * a + (1 - ab / (2 * float(b @ b))) * b)
        vectors = combined + (vectors[-1:] if len(vectors) % 2 else [])
    return vectors[0]


def check_adasum():
    def vector(rank, count):
        return torch.randn(
            count, generator=torch.Generator().manual_seed(rank * 7 + count)
        ).double()

    for count in (1, 5, 1000):
        expected = reference_adasum([vector(r, count) for r in range(SIZE)])
        result = hvd.allreduce(vector(RANK, count), op=hvd.Adasum)
        check.close(f"adasum of {count}", result, expected, 1e-12)
        check.same_on_all_ranks("adasum", result.numpy())
    same = hvd.allreduce(torch.full((3,), 2.0), op=hvd.Adasum)
    check.close("of equal vectors", same, [2.0] * 3, 1e-6)
    tensors = [vector(RANK, 5), vector(RANK, 9).float()]
    # Waited for in another order on each rank.
    handles = [
        hvd.allreduce_async_(tensors[0], op=hvd.Adasum, name="first"),
        hvd.allreduce_async_(tensors[1], op=hvd.Adasum, name="second"),
    ]
    for handle in handles if RANK % 2 else handles[::-1]:
        hvd.synchronize(handle)
    check.close("first", tensors[0], reference_adasum([vector(r, 5) for r in range(SIZE)]), 1e-12)
    check.close("second", tensors[1], reference_adasum([vector(r, 9) for r in range(SIZE)]), 1e-5)
    pair = hvd.grouped_allreduce([vector(RANK, 5), vector(RANK, 9)], op=hvd.Adasum)
    check.close("of a group", pair[1], reference_adasum([vector(r, 9) for r in range(SIZE)]), 1e-12)
    check.raises(ValueError, lambda: hvd.allreduce(torch.ones(3, dtype=torch.int32), op=hvd.Adasum))


if __name__ == "__main__":
    rows.run(globals())
