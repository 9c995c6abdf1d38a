# SPDX-License-Identifier: Apache-2.0
"""horovod.torch from init to shutdown, its process sets, and what it says when ranks differ.

Breaks when a process set reaches beyond its ranks, when an error does not say what differs, or when
nothing works after init() again.
"""

import collections

import check
import rows
import torch
from torch_values import MEAN, RANK, SIZE, base, mine

import horovod.torch as hvd


def half():
    """Return a process set of the even ranks, and whether this one is in it."""
    return hvd.ProcessSet(range(0, SIZE, 2)), RANK % 2 == 0


def check_lifecycle_and_probes():
    check.equal("initialised", hvd.is_initialized(), True)
    hvd.init()
    hvd.init(comm=list(range(SIZE)))
    check.raises(NotImplementedError, lambda: hvd.init(comm=[*range(SIZE), SIZE]))
    communicator = type("Intracomm", (), {"Get_rank": lambda self: 0})()
    text = check.raises(NotImplementedError, lambda: hvd.init(comm=communicator))
    check.equal("says why", "PMIx" in text, True)
    check.raises(NotImplementedError, lambda: hvd.ProcessSet(communicator))
    check.equal("local", 0 <= hvd.local_rank() < hvd.local_size() <= SIZE, True)
    check.equal("cross", 0 <= hvd.cross_rank() < hvd.cross_size() <= SIZE, True)
    check.equal("homogeneous", hvd.is_homogeneous(), True)
    check.equal("threads", hvd.mpi_threads_supported(), True)
    probes = ("mpi_enabled", "mpi_built", "gloo_enabled", "gloo_built", "nccl_built", "ddl_built")
    for probe in (*probes, "ccl_built", "cuda_built", "rocm_built"):
        check.equal(probe, isinstance(getattr(hvd, probe)(), int), True)


def check_own_name():
    import mpi_bridge.torch.elastic as own_elastic

    import horovod.common.basics
    import mpi_bridge.torch as own

    check.equal("the same functions", own.allreduce is hvd.allreduce, True)
    missing = set(hvd.__all__) - set(dir(own))
    check.equal("all of them", sorted(missing), [])
    check.equal("submodules too", own_elastic is hvd.elastic, True)
    counts = collections.Counter(hvd.__all__)
    check.equal("each once", max(counts.values()), 1)
    check.equal("basics too", horovod.common.basics.rank(), RANK)


def check_scripts_find_names_where_horovod_has_them():
    from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
    from horovod.torch import mpi_ops

    check.equal("the same error", HorovodInternalError is hvd.HorovodInternalError, True)
    check.equal("the same interrupt", HostsUpdatedInterrupt is hvd.elastic.HostsUpdatedInterrupt, 1)
    elsewhere = {
        "Compression",
        "DistributedOptimizer",
        "SyncBatchNorm",
        "allgather_object",
        "broadcast_object",
        "broadcast_optimizer_state",
        "broadcast_parameters",
        "elastic",
    }
    for name in {*hvd.__all__} - elsewhere:
        check.equal(name, getattr(mpi_ops, name) is getattr(hvd, name), True)
    check.raises(AttributeError, lambda: mpi_ops.of_no_such_name)


def check_process_sets():
    check.equal("global", hvd.global_process_set.process_set_id, 0)
    check.equal("global size", hvd.global_process_set.size(), SIZE)
    check.equal("global rank", hvd.global_process_set.rank(), RANK)
    check.equal("everybody is in", hvd.global_process_set.included(), True)
    even, is_in = half()
    check.equal("not registered", even.size() is None and even.included() is None, True)
    text = check.raises(ValueError, lambda: hvd.allreduce(mine(), process_set=even))
    check.equal("says how", "add_process_set" in text, True)
    if SIZE == 1:
        check.raises(ValueError, lambda: hvd.add_process_set(even))
        return
    check.equal("add", hvd.add_process_set(even) is even, True)
    check.equal("size", even.size(), (SIZE + 1) // 2)
    check.equal("included", even.included(), is_in)
    if is_in:
        check.equal("rank", even.rank(), RANK // 2)
        ranks = torch.arange(0, SIZE, 2)
        total = hvd.allreduce(torch.tensor([RANK]), op=hvd.Sum, process_set=even)
        check.equal("sum", total, [ranks.sum()])
        check.close(
            "average", hvd.allreduce(mine(), process_set=even), base() + ranks.double().mean(), 0
        )
        gathered = hvd.allgather(torch.tensor([RANK]), process_set=even)
        check.equal("allgather", gathered, ranks)
        root = int(ranks[-1])
        check.equal("broadcast", hvd.broadcast(mine(), root, process_set=even), base() + root)
        sent = torch.full((even.size(),), RANK)
        check.equal("alltoall", hvd.alltoall(sent, process_set=even), ranks)
        share = hvd.reducescatter(torch.ones(even.size()), op=hvd.Sum, process_set=even)
        check.equal("reducescatter", share, [even.size()])
        check.equal("object", hvd.broadcast_object([RANK], root, process_set=even), [root])
        check.equal("objects", hvd.allgather_object(RANK, process_set=even), ranks)
        hvd.barrier(process_set=even)
    else:
        check.raises(ValueError, lambda: hvd.allreduce(mine(), process_set=even))
    check.equal("all again", hvd.allreduce(torch.ones(1), op=hvd.Sum), [SIZE])
    check.equal("remove", hvd.remove_process_set(even), True)
    check.equal("remove again", hvd.remove_process_set(even), False)
    check.equal("remove all ranks", hvd.remove_process_set(hvd.global_process_set), False)


def check_ranks_that_differ_get_an_error_that_says_how():
    if SIZE == 1:
        return
    odd = RANK == SIZE - 1
    wrong = hvd.HorovodInternalError
    text = check.raises(wrong, lambda: hvd.allreduce(torch.zeros(4 if odd else 3), name="shapes"))
    check.equal("it names the tensor", "shapes" in text, True)
    text = check.raises(wrong, lambda: hvd.allgather(torch.zeros(2, 4 if odd else 3), name="rows"))
    check.equal("it names both shapes", "3" in text and "4" in text, True)
    op = hvd.Sum if odd else hvd.Max
    check.raises(wrong, lambda: hvd.allreduce(torch.zeros(3), name="ops", op=op))
    check.equal("the ranks go on", hvd.allreduce(torch.ones(1), op=hvd.Sum), [SIZE])


def check_a_name_in_use_is_refused():
    handle = hvd.allreduce_async(mine(), name="twice")
    check.raises(hvd.HorovodInternalError, lambda: hvd.allreduce_async(mine(), name="twice"))
    check.equal("the first goes on", hvd.synchronize(handle), base() + MEAN)


def check_init_after_shutdown():
    # Last, because all handles end here.
    static = hvd.ProcessSet([0])
    for _ in range(3):
        hvd.shutdown()
        check.equal("left", hvd.is_initialized(), False)
        check.raises(ValueError, hvd.rank)
        hvd.shutdown()
        hvd.init(process_sets=[static])
        check.equal("rank", hvd.rank(), RANK)
        check.equal("static set", static.included(), RANK == 0)
        if RANK == 0:
            check.equal("alone", hvd.allreduce(mine(), process_set=static), mine())
        check.equal("again", hvd.allreduce(torch.ones(2), op=hvd.Sum, name="again"), [SIZE] * 2)
    twice = [hvd.ProcessSet([0]), hvd.ProcessSet(range(SIZE)), hvd.ProcessSet([0])]
    hvd.init(process_sets=twice)
    numbers = [one.process_set_id for one in twice[::2]]
    check.equal("the same ranks", numbers, [static.process_set_id] * 2)
    check.equal("all ranks", twice[1].process_set_id, 0)
    hvd.init(process_sets="dynamic")
    check.raises(ValueError, lambda: hvd.init(process_sets="static"))


if __name__ == "__main__":
    rows.run(globals())
