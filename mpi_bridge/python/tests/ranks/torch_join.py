# SPDX-License-Identifier: Apache-2.0
"""horovod.torch while ranks that have no more batches have joined.

Breaks when the others wait for those ranks, or take values from them.
"""

import time

import check
import rows
import torch
from torch_values import RANK, SIZE

import horovod.torch as hvd


def check_barrier_and_join():
    hvd.barrier()
    # Rank r has r more batches than rank 0: the others go on without those that are through.
    for batch in range(RANK):
        total = hvd.allreduce(torch.ones(2), op=hvd.Sum, name=f"batch {batch}")
        check.equal("sum of those left", total, [SIZE - 1 - batch] * 2)
    last = hvd.join()
    check.equal("the last to join", last, SIZE - 1)
    check.equal("after join", hvd.allreduce(torch.ones(1), op=hvd.Sum), [SIZE])


def everything_but_allreduce():
    """Return a call of each function that cannot run while a rank has joined."""
    vector, parameter = torch.ones(SIZE), torch.ones(SIZE, requires_grad=True)
    indices = torch.zeros((1, 1), dtype=torch.int64)
    sparse = torch.sparse_coo_tensor(indices, torch.ones(1), (3,), check_invariants=False)
    return {
        "allgather": lambda: hvd.allgather(vector),
        "allgather with a name": lambda: hvd.allgather(vector, name="while joined"),
        "allgather with a gradient": lambda: hvd.allgather(parameter),
        "allgather_async": lambda: hvd.synchronize(hvd.allgather_async(vector)),
        "grouped_allgather": lambda: hvd.grouped_allgather([vector, vector]),
        "broadcast": lambda: hvd.broadcast(vector, SIZE - 1),
        "broadcast_": lambda: hvd.broadcast_(vector, 0),
        "alltoall": lambda: hvd.alltoall(vector),
        "reducescatter": lambda: hvd.reducescatter(vector),
        "grouped_reducescatter": lambda: hvd.grouped_reducescatter([vector, vector]),
        "sparse_allreduce": lambda: hvd.sparse_allreduce(sparse),
        "barrier": hvd.barrier,
        "allgather_object": lambda: hvd.allgather_object(RANK),
        "broadcast_object": lambda: hvd.broadcast_object([RANK], 0),
        "broadcast_parameters": lambda: hvd.broadcast_parameters({"x": vector}, 0),
    }


def check_only_allreduce_runs_while_a_rank_has_joined():
    for first in (0, SIZE - 1) if SIZE > 1 else ():
        if first != RANK:
            for _ in range(3):
                hvd.grouped_allreduce([torch.ones(2), torch.ones(3)])
            hvd.allreduce(torch.ones(2))
            for what, call in everything_but_allreduce().items():
                began = time.monotonic()
                text = check.raises(hvd.HorovodInternalError, call)
                check.equal(f"{what} says why", "join" in text, True)
                # The limits of an operation that does not end are twice as long.
                check.equal(f"{what} fails at once", time.monotonic() - began < 150, True)
        last = hvd.join()
        check.equal("the last to join", last != first and 0 <= last < SIZE, True)
        # The ranks have counted different numbers of calls without a name.
        check.equal("the same last", hvd.allgather_object(last), [last] * SIZE)
        for call in everything_but_allreduce().values():
            call()
        (total,) = hvd.grouped_allreduce([torch.ones(1)], op=hvd.Sum)
        check.equal("in a group", total, [SIZE])
        check.equal("alone", hvd.allreduce(torch.ones(1), op=hvd.Sum), [SIZE])


def check_words_of_horovod_while_a_rank_has_joined():
    vector = torch.ones(SIZE)
    calls = {
        "Allgather": lambda: hvd.allgather(vector),
        "Alltoall": lambda: hvd.alltoall(vector),
        "Broadcast": lambda: hvd.broadcast(vector, SIZE - 1),
        "Reducescatter": lambda: hvd.reducescatter(vector),
    }
    texts = {}
    if RANK != 0:
        for what, call in calls.items():
            texts[what] = check.raises(hvd.HorovodInternalError, call)
    hvd.join()
    for what, text in texts.items():
        expected = f"{what} is not supported with Join at this time"
        check.equal(f"{expected} in {text}", expected in text, True)


if __name__ == "__main__":
    rows.run(globals())
