# SPDX-License-Identifier: Apache-2.0
"""mpi_bridge on numpy arrays: every operation, type and root, against values computed here.

Breaks when an operation reduces wrongly, leaves part of a (poisoned) output unwritten, or mixes
up ranks, lengths or types.
"""

import check
import ml_dtypes
import numpy as np

import mpi_bridge
from mpi_bridge import Op

mpi_bridge.init()
RANK, SIZE = mpi_bridge.rank(), mpi_bridge.size()
COUNTS = (0, 1, 3, 1000, 70001)
FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
INTEGERS = (np.uint8, np.int8, np.int16, np.int32, np.int64)
POISON = 77


def contribution(rank, count, dtype):
    # Small integers are exact in every type and for every order of additions.
    return ((np.arange(count) * 7 + rank * 3) % 5 + 1).astype(dtype)


def expected(op, count, dtype):
    rows = np.stack([contribution(r, count, np.float64) for r in range(SIZE)])
    if op == Op.AVERAGE:
        mean = rows.sum(axis=0) / SIZE
        return (np.trunc(mean) if dtype in INTEGERS else mean).astype(dtype)
    reduce = {Op.SUM: np.sum, Op.MIN: np.min, Op.MAX: np.max, Op.PRODUCT: np.prod}[op]
    return reduce(rows, axis=0).astype(dtype)


def allreduce():
    for dtype in (*FLOATS, *INTEGERS):
        for count in COUNTS:
            for op in (Op.SUM, Op.AVERAGE, Op.MIN, Op.MAX):
                what = f"allreduce {op.name} of {count} {np.dtype(dtype).name}"
                mine = contribution(RANK, count, dtype)
                result = np.full(count, POISON, dtype)
                mpi_bridge.allreduce(mine, result, op)
                check.equal(what, result, expected(op, count, dtype))
                mpi_bridge.allreduce(mine, op=op)
                check.equal(what + " in place", mine, expected(op, count, dtype))
    product = contribution(RANK, 9, np.float64)
    mpi_bridge.allreduce(product, op=Op.PRODUCT)
    check.equal("allreduce PRODUCT", product, expected(Op.PRODUCT, 9, np.float64))


def allreduce_of_random_numbers():
    rows = [np.random.default_rng(r).normal(size=50001).astype("f4") for r in range(SIZE)]
    result = np.full(50001, np.nan, "f4")
    mpi_bridge.allreduce(rows[RANK], result)
    check.close("sum of random numbers", result, np.sum(rows, axis=0, dtype="f8"), 1e-5 * SIZE)
    check.same_on_all_ranks("sum of random numbers", result)


def broadcast():
    for root in range(SIZE):
        for count in COUNTS:
            array = contribution(root if root == RANK else SIZE + 1, count, np.int32)
            mpi_bridge.broadcast(array, root)
            check.equal(f"broadcast from {root}", array, contribution(root, count, np.int32))
    payload = b"from the root" if RANK == 0 else bytearray(13)
    mpi_bridge.broadcast(payload, 0)
    check.equal("broadcast of bytes", list(payload), list(b"from the root"))


def allgather():
    for count in COUNTS:
        result = np.full(count * SIZE, POISON, np.int16)
        mpi_bridge.allgather(contribution(RANK, count, np.int16), result)
        rows = [contribution(r, count, np.int16) for r in range(SIZE)]
        check.equal(f"allgather of {count}", result, np.concatenate(rows))
    lengths = [(r * 37) % 5 for r in range(SIZE)]
    result = np.full(sum(lengths), POISON, np.float64)
    mpi_bridge.allgatherv(
        contribution(RANK, lengths[RANK], np.float64), result, [8 * n for n in lengths]
    )
    rows = [contribution(r, n, np.float64) for r, n in enumerate(lengths)]
    check.equal("allgatherv", result, np.concatenate(rows))


def reduce_scatter():
    counts = [(r * 3 + 1) % 4 for r in range(SIZE)]
    for op in (Op.SUM, Op.AVERAGE, Op.MAX):
        result = np.full(counts[RANK], POISON, np.float32)
        mpi_bridge.reduce_scatter(contribution(RANK, sum(counts), np.float32), result, counts, op)
        first = sum(counts[:RANK])
        whole = expected(op, sum(counts), np.float32)
        check.equal(f"reduce_scatter {op.name}", result, whole[first : first + counts[RANK]])


def alltoall():
    mine = np.arange(SIZE * 2, dtype=np.int64) + 1000 * RANK
    result = np.full(SIZE * 2, POISON, np.int64)
    mpi_bridge.alltoall(mine, result)
    parts = [np.arange(2) + 2 * RANK + 1000 * r for r in range(SIZE)]
    check.equal("alltoall", result, np.concatenate(parts))

    def length(source, target):
        return (source + 2 * target) % 3

    outgoing = [length(RANK, r) for r in range(SIZE)]
    incoming = [length(r, RANK) for r in range(SIZE)]
    mine = np.concatenate([np.full(n, RANK * 16 + r, "u1") for r, n in enumerate(outgoing)])
    result = np.full(sum(incoming), POISON, "u1")
    mpi_bridge.alltoallv(mine, outgoing, result, incoming)
    parts = [np.full(n, r * 16 + RANK, "u1") for r, n in enumerate(incoming)]
    check.equal("alltoallv", result, np.concatenate(parts))


def objects():
    value = {"from": RANK, "text": "x" * RANK}
    for root in range(SIZE):
        received = mpi_bridge.broadcast_object(value, root)
        check.equal("broadcast_object", received["from"], root)
        check.equal("its text", len(received["text"]), root)
    gathered = mpi_bridge.allgather_object(value)
    check.equal("allgather_object", [entry["from"] for entry in gathered], np.arange(SIZE))


def refuses_what_it_cannot_do():
    wrong = mpi_bridge.InvalidArgumentError
    check.raises(wrong, lambda: mpi_bridge.allreduce(np.zeros(3), np.zeros(4)))
    check.raises(wrong, lambda: mpi_bridge.allreduce(np.zeros(3, bool)))
    check.raises(wrong, lambda: mpi_bridge.allreduce(b"read-only"))
    check.raises(wrong, lambda: mpi_bridge.broadcast(np.zeros(3), SIZE))
    # The refusals were local: the ranks are still in step.
    allreduce_of_random_numbers()


def place_among_the_ranks():
    check.equal("ranks", [row[0] for row in mpi_bridge.gather_integers([RANK])], np.arange(SIZE))
    if not 0 <= mpi_bridge.local_rank() < mpi_bridge.local_size() <= SIZE:
        raise check.WrongValueError("local rank and size are out of range")
    if not 0 <= mpi_bridge.cross_rank() < mpi_bridge.cross_size() <= SIZE:
        raise check.WrongValueError("cross rank and size are out of range")


place_among_the_ranks()
allreduce()
allreduce_of_random_numbers()
broadcast()
allgather()
reduce_scatter()
alltoall()
objects()
refuses_what_it_cannot_do()
check.passed()
