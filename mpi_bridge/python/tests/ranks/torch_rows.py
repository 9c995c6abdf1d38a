# SPDX-License-Identifier: Apache-2.0
"""horovod.torch, one check for each row of its interface, against values computed here.

Breaks when scaling, uneven parts, compression, gradients, groups, names, process sets or the
broadcast of state go wrong.
"""

import collections
import itertools
import time

import check
import numpy as np
import rows
import torch

import horovod.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
MEAN = (SIZE - 1) / 2
TOTAL = MEAN * SIZE


def base():
    return torch.arange(6.0).view(2, 3)


def mine():
    return base() + RANK


def half():
    """Return a process set of the even ranks, and whether this one is in it."""
    return hvd.ProcessSet(range(0, SIZE, 2)), RANK % 2 == 0


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
    check.equal("even, async", hvd.synchronize(hvd.alltoall_async(even)), expected)
    check.raises(hvd.HorovodInternalError, lambda: hvd.alltoall(even, splits=[1] * (SIZE + 1)))


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
                check.equal(f"{what} fails at once", time.monotonic() - began < 15, True)
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
    check.raises(ValueError, lambda: hvd.remove_process_set(hvd.global_process_set))


def check_objects():
    value = {"rank": RANK, "numbers": [RANK] * RANK}
    for root in range(SIZE):
        received = hvd.broadcast_object(value, root, name=f"object {root}")
        check.equal("broadcast_object", received["numbers"], [root] * root)
    check.equal("allgather_object", [v["rank"] for v in hvd.allgather_object(value)], range(SIZE))


def check_broadcast_parameters():
    torch.manual_seed(RANK)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for name, tensor in model.state_dict().items():
        check.same_on_all_ranks(name, tensor.numpy())
    with torch.no_grad():
        model[0].weight.add_(RANK)
    hvd.broadcast_parameters(model.named_parameters(), root_rank=SIZE - 1)
    check.same_on_all_ranks("from the last", model[0].weight.detach().numpy())
    with torch.no_grad():
        model[0].bias.add_(RANK)
    hvd.broadcast_parameters(list(model.parameters()), root_rank=0)
    check.same_on_all_ranks("without names", model[0].bias.detach().numpy())
    check.raises(TypeError, lambda: hvd.broadcast_parameters({"x": 3}, 0))
    if SIZE > 1:
        names = ["a", "b"] if RANK == SIZE - 1 else ["b", "a"]
        tensors = [(name, torch.zeros(3)) for name in names]
        text = check.raises(hvd.HorovodInternalError, lambda: hvd.broadcast_parameters(tensors, 0))
        check.equal("it names ranks", "; ranks [" in text, True)


def check_broadcast_optimizer_state():
    kinds = [
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
        (torch.optim.Adam, {"lr": 0.1, "amsgrad": True}),
        (torch.optim.AdamW, {"lr": 0.1}),
        (torch.optim.Adamax, {"lr": 0.1}),
        (torch.optim.NAdam, {"lr": 0.1}),
        (torch.optim.RAdam, {"lr": 0.1}),
        (torch.optim.Adagrad, {"lr": 0.1}),
        (torch.optim.Adadelta, {"lr": 0.1}),
        (torch.optim.RMSprop, {"lr": 0.1, "centered": True, "momentum": 0.5}),
        (torch.optim.Rprop, {"lr": 0.1}),
        (torch.optim.ASGD, {"lr": 0.1}),
        (torch.optim.LBFGS, {"lr": 0.1}),
    ]
    for kind, options in kinds:
        torch.manual_seed(RANK)
        model = torch.nn.Linear(3, 2)
        settings = {**options, "lr": options["lr"] * (RANK + 1)}
        optimizer = kind(model.parameters(), **settings)
        # The root has made steps, the last rank none, so it has no state at all.
        for _ in range(2 if RANK == 0 else SIZE - 1 - RANK):

            def closure(model=model, optimizer=optimizer):
                optimizer.zero_grad()
                loss = model(torch.ones(4, 3)).square().sum()
                loss.backward()
                return loss

            optimizer.step(closure)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        check.equal("learning rate", optimizer.param_groups[0]["lr"], 0.1)
        states = hvd.allgather_object(optimizer.state_dict())
        for state in states:
            check.equal(kind.__name__, repr(state), repr(states[0]))
        check.equal("there is a state", len(states[-1]["state"]) > 0, True)


def check_gradients_are_zeros_after_the_broadcast_of_a_new_state():
    class Words(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(4, 3, sparse=True)
            self.scale = torch.nn.Parameter(torch.ones(3))
            self.frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)

    model = Words()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    check.equal("dense", model.words.weight.grad, np.zeros((4, 3)))
    hvd.broadcast_optimizer_state(optimizer, root_rank=0, model=model)
    check.equal("scale", model.scale.grad, np.zeros(3))
    check.equal("frozen", model.frozen.grad is None, True)
    check.equal("sparse", model.words.weight.grad.is_sparse, True)
    check.equal("rows", model.words.weight.grad.sparse_dim(), 1)
    optimizer.step()  # these gradients are such as the optimizer accepts
    check.equal("the parameters are left alone", model.scale.detach(), np.ones(3))
    model.scale.grad.fill_(1.0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0, model=model)
    check.equal("not where there is a state", model.scale.grad, np.ones(3))
    only_words = hvd.DistributedOptimizer(torch.optim.SparseAdam([model.words.weight]))
    hvd.broadcast_optimizer_state(only_words, root_rank=0)
    check.equal("for SparseAdam", model.words.weight.grad.is_sparse, True)


def check_gradients():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (hvd.allreduce(x, op=hvd.Sum, name="named") * (RANK + 1.0)).sum().backward()
    check.equal("of a sum", x.grad, [SIZE * (MEAN + 1)] * 2)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (hvd.allreduce(x, prescale_factor=3.0) * (RANK + 1.0)).sum().backward()
    check.close("of a scaled average", x.grad, [3.0 * (MEAN + 1)] * 2, 1e-6)
    xs = [torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)]
    first, second = hvd.grouped_allreduce(xs, op=hvd.Sum)
    (first.sum() + 2 * second.sum()).backward()
    check.equal("of a group", xs[0].grad, [SIZE] * 2)
    check.equal("of a group", xs[1].grad, [2 * SIZE] * 3)
    x = torch.full((RANK + 1, 1), 1.0, requires_grad=True)
    (hvd.allgather(x) * 3.0).sum().backward()
    check.equal("of allgather", x.grad, np.full((RANK + 1, 1), 3.0))
    x = torch.ones(2, requires_grad=True)
    (hvd.broadcast(x, SIZE - 1) * (RANK + 1.0)).sum().backward()
    check.equal("of broadcast", x.grad, [MEAN + 1 if RANK == SIZE - 1 else 0.0] * 2)
    splits = [r + 1 for r in range(SIZE)]
    x = torch.ones(sum(splits), requires_grad=True)
    received, _ = hvd.alltoall(x, splits)
    (received * (RANK + 1.0)).sum().backward()
    check.equal("of alltoall", x.grad, np.repeat(np.arange(SIZE) + 1.0, splits))
    x = torch.ones(SIZE, requires_grad=True)
    (hvd.reducescatter(x, op=hvd.Sum) * (RANK + 1.0)).sum().backward()
    check.equal("of reducescatter", x.grad, (np.arange(SIZE) + 1.0) * SIZE)
    with torch.no_grad():
        check.equal("none without autograd", hvd.allreduce(x).requires_grad, False)


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


def check_sync_batch_norm():
    def batch(rank):
        generator = torch.Generator().manual_seed(rank)
        return torch.randn(rank + 1, 3, 2, generator=generator, dtype=torch.float64) + 5

    for affine, momentum in ((True, 0.1), (False, None)):
        whole = torch.nn.BatchNorm1d(3, affine=affine, momentum=momentum).double()
        ours = hvd.SyncBatchNorm(3, affine=affine, momentum=momentum).double()
        first = sum(r + 1 for r in range(RANK))
        rows_of_mine = slice(first, first + RANK + 1)
        for _ in range(2):
            everything = torch.cat([batch(r) for r in range(SIZE)]).requires_grad_()
            part = batch(RANK).requires_grad_()
            expected, result = whole(everything), ours(part)
            check.close("output", result.detach(), expected.detach()[rows_of_mine], 1e-10)
            expected.pow(3).sum().backward()
            result.pow(3).sum().backward()
            check.close("gradient", part.grad, everything.grad[rows_of_mine], 1e-10)
        check.close("running mean", ours.running_mean, whole.running_mean, 1e-12)
        check.close("running variance", ours.running_var, whole.running_var, 1e-12)
        if affine:
            total = hvd.allreduce(ours.weight.grad, op=hvd.Sum)
            check.close("gradient of the weight", total, whole.weight.grad, 1e-9)
            total = hvd.allreduce(ours.bias.grad, op=hvd.Sum)
            check.close("gradient of the bias", total, whole.bias.grad, 1e-9)
        ours.eval()
        whole.eval()
        check.close("evaluation", ours(batch(0)).detach(), whole(batch(0)).detach(), 1e-10)


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
    hvd.init(process_sets="dynamic")
    check.raises(ValueError, lambda: hvd.init(process_sets="static"))


if __name__ == "__main__":
    rows.run(globals())
