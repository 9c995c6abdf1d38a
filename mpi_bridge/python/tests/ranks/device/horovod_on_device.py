# SPDX-License-Identifier: Apache-2.0
"""horovod.torch on CUDA tensors against values computed here, and training against one process.

Breaks when a tensor of the device is reduced or moved wrongly, when an operation does not follow
the stream that is current, when a result comes back on another device, or when N ranks do not train
as one process does.
"""

import threading

import check
import rows
import torch
from device.training import BATCH, STEPS, data, device_of, losses_alone, make_model, optimizer_of
from device.training import part_of as part
from torch import nn

import horovod.torch as hvd
from horovod.torch.placement import Way, way_of
from mpi_bridge import torch_replicas

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
DEVICE = device_of(hvd.local_rank())
ON_GPU = DEVICE.type == "cuda"
TOTAL = SIZE * (SIZE - 1) // 2
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def needs_a_gpu():
    if not ON_GPU:
        raise check.Skipped("there is no GPU")


def equal(what, actual, expected):
    if actual.device != DEVICE:
        raise check.WrongValueError(f"{what} is on {actual.device}")
    check.equal(what, actual.detach().double().cpu(), torch.as_tensor(expected).double().cpu())


def full(shape, value, dtype=torch.float32):
    return torch.full(shape, value, dtype=dtype, device=DEVICE)


def check_tensors_of_the_device_are_used_where_they_are():
    wanted = Way.DEVICE if ON_GPU else Way.HOST
    check.equal("way", way_of(full((2,), 1)) is wanted, True)
    if ON_GPU:
        check.equal("CUDA", hvd.cuda_built(), True)


def check_allreduce_of_every_type():
    for dtype in (*FLOATS, *INTEGERS):
        mine = full((3, 5), RANK + 1, dtype)
        for op, expected in ((hvd.Sum, TOTAL + SIZE), (hvd.Min, 1), (hvd.Max, SIZE)):
            equal(f"{dtype} {op}", hvd.allreduce(mine, op=op), full((3, 5), expected))
        hvd.allreduce_(mine, op=hvd.Sum)
        equal(f"{dtype} in place", mine, full((3, 5), TOTAL + SIZE))
    averaged = hvd.allreduce(full((1000,), RANK + 1), prescale_factor=2.0, postscale_factor=0.5)
    check.close("average", averaged.cpu(), [(SIZE + 1) / 2] * 1000, 1e-5)
    across = full((4, 6), RANK + 1).t()
    equal("not contiguous", hvd.allreduce_(across, op=hvd.Sum), full((6, 4), TOTAL + SIZE))
    last = full((2, 8, 3, 3), RANK + 1.0).to(memory_format=torch.channels_last)
    equal("channels last", hvd.allreduce_(last, op=hvd.Sum), full((2, 8, 3, 3), TOTAL + SIZE))
    equal("nothing", hvd.allreduce(full((0, 3), 1.0), op=hvd.Sum), full((0, 3), 1.0))


def check_groups_and_compression():
    tensors = [full((length,), RANK + 1.0) for length in (1, 5000, 7)]
    for reduced in hvd.grouped_allreduce(tensors, op=hvd.Sum):
        equal("grouped", reduced, full(reduced.shape, TOTAL + SIZE))
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        reduced = hvd.allreduce(tensors[1], op=hvd.Sum, compression=compression)
        equal(compression.__name__, reduced, full((5000,), TOTAL + SIZE))


def check_what_the_engine_has_allocated_comes_back_on_the_device():
    lengths = [2 * rank + 1 for rank in range(SIZE)]
    for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.complex64):
        gathered = hvd.allgather(full((lengths[RANK], 2), RANK % 2, dtype))
        expected = torch.repeat_interleave(torch.arange(SIZE) % 2, torch.tensor(lengths))
        equal(f"gathered {dtype}", gathered.real[:, 1], expected)
    received, splits = hvd.alltoall(full((SIZE * 3,), RANK), [3] * SIZE)
    equal("alltoall", received, torch.arange(SIZE).repeat_interleave(3))
    check.equal("splits", splits.tolist(), [3] * SIZE)
    of_the_device = torch.full((SIZE,), 3, dtype=torch.int32, device=DEVICE)
    for received, splits in (
        hvd.alltoall(full((SIZE * 3,), RANK), of_the_device),
        hvd.synchronize(hvd.alltoall_async(full((SIZE * 3,), RANK), of_the_device)),
    ):
        equal("alltoall", received, torch.arange(SIZE).repeat_interleave(3))
        equal("splits of the device", splits, [3] * SIZE)
    root = SIZE - 1
    equal("broadcast", hvd.broadcast(full((4, 2), RANK), root), full((4, 2), root))
    scattered = hvd.reducescatter(full((SIZE * 2, 3), RANK + 1), op=hvd.Sum)
    equal("reducescatter", scattered, full((2, 3), TOTAL + SIZE))
    indices = torch.tensor([[0, RANK + 1]], device=DEVICE)
    values = full((2, 2), 1.0)
    mine = torch.sparse_coo_tensor(indices, values, (SIZE + 1, 2), check_invariants=True)
    summed = hvd.sparse_allreduce(mine, op=hvd.Sum).to_dense()
    equal("sparse", summed, torch.tensor([[float(SIZE)] * 2, *[[1.0] * 2] * SIZE]))


def check_hashes_of_tensors_are_those_of_the_host():
    for dtype in (*FLOATS, *INTEGERS, torch.bool, torch.complex64):
        for length in (0, 1, 3, 1000, (1 << 18) + 1):
            tensor = torch.arange(length).to(dtype)
            (here,) = torch_replicas.hashes_of([tensor.to(DEVICE)])
            check.equal(f"{dtype}, {length}", [here], torch_replicas.hashes_of([tensor]))


def check_an_operation_follows_the_stream_of_its_submission():
    needs_a_gpu()
    side = torch.cuda.Stream()
    for step in range(5):
        tensor = full((1 << 20,), 0.0)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            tensor.fill_(RANK + 1)
            handle = hvd.allreduce_async_(tensor, op=hvd.Sum, name="in a side stream")
        # The stream that is current here waits for the one that was current there.
        hvd.synchronize(handle)
        equal(f"step {step}", tensor.clone(), full((1 << 20,), TOTAL + SIZE))


def check_another_stream_waits_for_an_operation_of_the_default_one():
    needs_a_gpu()
    side = torch.cuda.Stream()
    for step in range(5):
        tensor = full((1 << 20,), 0.0)
        torch.cuda._sleep(50_000_000)
        tensor.fill_(RANK + 1)
        handle = hvd.allreduce_async_(tensor, op=hvd.Sum, name="in the default stream")
        with torch.cuda.stream(side):
            hvd.synchronize(handle)
            equal(f"step {step}", tensor, full((1 << 20,), TOTAL + SIZE))


def check_the_host_does_not_wait_for_the_device():
    needs_a_gpu()
    from device.cuda_driver import Gate  # loads the driver

    if SIZE > 1 or not hvd.nccl_built():
        raise check.Skipped("only one rank alone goes over NCCL here, where it is installed")
    tensor = full((1000,), 1.0)
    hvd.allreduce_(tensor, op=hvd.Sum, name="opening")
    torch.cuda.synchronize()
    # The device goes on only when the host says so, after the operation has returned.
    gate = Gate(torch.cuda.current_stream().cuda_stream, seconds=15)
    hvd.allreduce_(tensor, op=hvd.Sum, name="behind a gate")
    gate.open()
    equal("sum", tensor, full((1000,), 1.0))
    check.equal("the host has come to the gate in time", gate.was_opened, True)


def check_operations_go_on_beside_the_capture_of_a_graph():
    needs_a_gpu()
    beside = full((1 << 20,), 1.0)
    captured, result = full((1 << 20,), 1.0), full((1 << 20,), 0.0)

    def reduce_beside():
        handle = hvd.allreduce_async_(beside, op=hvd.Max, name="beside a capture")
        hvd.synchronize(handle)

    reduce_beside()
    graph = torch.cuda.CUDAGraph()
    # What the capture allows to one thread only, all others break it by.
    with torch.cuda.graph(graph, capture_error_mode="global"):
        result.copy_(captured).mul_(3)
        other = threading.Thread(target=reduce_beside)
        other.start()
        other.join()
        refused = check.raises(
            Exception, lambda: hvd.allreduce_async_(captured, op=hvd.Sum, name="captured")
        )
    check.equal("the reason", "captured into a CUDA graph" in refused, True)
    captured.fill_(2)
    graph.replay()
    equal("what the graph computes", result, full((1 << 20,), 6))
    reduce_beside()
    equal("beside", beside, full((1 << 20,), 1))


def check_adasum_works_through_host_memory():
    combined = hvd.allreduce(full((10,), 3.0), op=hvd.Adasum)
    check.close("equal vectors are averaged", combined.cpu(), [3.0] * 10, 1e-5)
    check.equal("device", combined.device, DEVICE)


def check_parameters_and_the_state_of_an_optimizer_are_the_roots():
    model = make_model(DEVICE, seed=RANK)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for actual, wanted in zip(model.parameters(), make_model(DEVICE, seed=0).parameters()):
        equal("parameter", actual, wanted.detach())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (RANK + 1))
    if RANK == 0:
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    check.equal("rate", optimizer.param_groups[0]["lr"], 0.1)
    for parameter in model.parameters():
        equal("momentum", optimizer.state[parameter]["exp_avg"], full(parameter.shape, 0.1))


def _train(model, optimizer, passes=1, steps=STEPS):
    losses = []
    for step in range(steps):
        pictures, classes = (part(each, RANK) for each in data(step, SIZE, DEVICE))
        optimizer.zero_grad()
        total = 0.0
        for few in zip(pictures.chunk(passes), classes.chunk(passes)):
            loss = nn.functional.cross_entropy(model(few[0]), few[1]) / passes
            loss.backward()
            total += loss.detach()
        optimizer.step()
        losses.append(hvd.allreduce(total, name="loss").item())
    return losses


def _compare(what, losses, model, tolerance=2e-4, norm=nn.Identity):
    expected, alone = losses_alone(DEVICE, SIZE, norm=norm)
    check.close(f"{what}: losses", losses, expected, tolerance)
    for actual, wanted in zip(model.parameters(), alone.parameters()):
        check.close(f"{what}: weights", actual.detach().cpu(), wanted.detach().cpu(), tolerance)
    if not losses[-1] < losses[0]:
        raise check.WrongValueError(f"{what}: the loss does not fall: {losses}")


def _require_several_ranks():
    if SIZE == 1:
        raise check.Skipped("one rank has nothing to reduce, so it would show nothing")


def check_training_is_that_of_one_process():
    _require_several_ranks()
    for what, passes, options in (
        ("plain", 1, {}),
        ("views", 1, {"gradient_as_bucket_view": True}),
        ("groups", 1, {"num_groups": 2}),
        ("passes", 2, {"backward_passes_per_step": 2, "gradient_as_bucket_view": True}),
        ("predivided", 1, {"gradient_predivide_factor": 2.0}),
    ):
        model = make_model(DEVICE)
        optimizer = hvd.DistributedOptimizer(
            optimizer_of(model), named_parameters=model.named_parameters(), **options
        )
        _compare(what, _train(model, optimizer, passes), model)
        for parameter in model.parameters():
            check.equal("the gradient's device", parameter.grad.device, DEVICE)


def check_training_in_half_precision_stays_close():
    _require_several_ranks()
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        for views in (False, True):
            model = make_model(DEVICE)
            optimizer = hvd.DistributedOptimizer(
                optimizer_of(model),
                named_parameters=model.named_parameters(),
                compression=compression,
                gradient_as_bucket_view=views,
            )
            _compare(compression.__name__, _train(model, optimizer), model, 5e-2)


def check_batch_normalisation_over_all_ranks_is_that_of_one_process():
    _require_several_ranks()
    model = make_model(DEVICE, hvd.SyncBatchNorm)
    optimizer = hvd.DistributedOptimizer(
        optimizer_of(model), named_parameters=model.named_parameters()
    )
    _compare("SyncBatchNorm", _train(model, optimizer), model, 1e-3, nn.BatchNorm2d)


def check_a_gradient_that_some_ranks_lack_counts_as_zeros():
    _require_several_ranks()
    used, unused = (nn.Parameter(full((300,), 1.0)) for _ in range(2))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([used, unused], lr=1.0),
        named_parameters=[("used", used), ("unused", unused)],
    )
    for _ in range(3):
        optimizer.zero_grad()
        (used.sum() + (unused.sum() if RANK == 0 else 0)).backward()
        optimizer.synchronize()
        equal("used", used.grad, full((300,), 1.0))
        check.close("unused", unused.grad.cpu(), [1.0 / SIZE] * 300, 1e-6)
    optimizer.zero_grad()
    used.sum().backward()
    optimizer.synchronize()
    check.equal("absent on all ranks", unused.grad is None, True)


if __name__ == "__main__":
    if RANK == 0:
        print(f"{SIZE} ranks, {BATCH} samples each, {DEVICE}, NCCL {hvd.nccl_built()}", flush=True)
    rows.run(globals())
