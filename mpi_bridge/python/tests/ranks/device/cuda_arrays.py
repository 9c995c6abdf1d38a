# SPDX-License-Identifier: Apache-2.0
"""mpi_bridge.engine on CUDA memory of other libraries than torch, against values computed here.

Breaks when an operation does not follow the stream that it was given or that an array names, when
the host waits for the device, when a buffer goes back too early, or when arguments that would let
the host touch device memory are not refused. Runs on a GPU, or on the stand-in for one.
"""

import ctypes
import gc
import os
import weakref

import check
import numpy as np
import rows
from device.cuda_driver import (
    Array,
    BothArray,
    CudaMemory,
    DlpackArray,
    Gate,
    InterfaceArray,
    must,
    new_stream,
    synchronize,
    use_device,
)

import mpi_bridge
from mpi_bridge import InvalidArgumentError, MismatchError, Op, engine, on_device
from mpi_bridge.engine import Kind

mpi_bridge.init()
RANK, SIZE = mpi_bridge.rank(), mpi_bridge.size()
TOTAL = SIZE * (SIZE - 1) // 2
DEVICE = use_device(mpi_bridge.local_rank())
STREAM, OTHER = new_stream(), new_stream()
KINDS = (InterfaceArray, DlpackArray, BothArray)


def over_nccl():
    """Whether the data goes over NCCL: each rank has a device, or NCCL is asked for."""
    if os.environ.get("MPI_BRIDGE_GPU_PATH") == "nccl":
        return True
    everyone = np.empty(SIZE, np.int64)
    mpi_bridge.allgather(np.array([DEVICE], np.int64), everyone)
    return len(set(everyone.tolist())) == SIZE


OVER_NCCL = over_nccl()


def check_a_rank_whose_first_array_is_empty_keeps_its_device():
    # First of all checks: no operation has told yet which device the ranks have.
    check.equal("device at first", engine.device(), None)
    rows_of = [3 if rank == 0 else 0 for rank in range(SIZE)]
    array = BothArray(np.full((rows_of[RANK], 2), 5, "f4"), STREAM)
    handle = engine.submit(Kind.ALLGATHER, array, name="empty first", shape=(rows_of[RANK], 2))
    check.equal("rows", handle.wait().received_rows, rows_of)
    handle.release()
    check.equal("device then", engine.device(), DEVICE)
    # What follows is refused if the rank was taken for one without a device.
    array = InterfaceArray(np.full(4, RANK + 1, "f4"), STREAM)
    engine.submit(Kind.ALLREDUCE, array, array, name="not empty then").finish()
    check.equal("sum", array.get(), np.full(4, TOTAL + SIZE, "f4"))
    engine.set_device(DEVICE)
    check.raises(InvalidArgumentError, lambda: engine.set_device(-1))
    check.raises(InvalidArgumentError, lambda: engine.set_device(99))


def connect(length):
    """Have NCCL connect for allreduces of this length, which may wait for an idle device."""
    array = InterfaceArray(np.zeros(length, "f4"), STREAM)
    engine.submit(Kind.ALLREDUCE, array, array, name=f"{length} to connect").finish()
    synchronize(STREAM)


def check_buffers_stay_until_the_device_has_finished():
    if not OVER_NCCL:
        raise check.Skipped("through host memory, the end of a wait is the end of the operation")
    connect(70_000)
    for kind in KINDS:
        array = kind(np.full(70_000, RANK + 1, "f4"), STREAM)
        received = kind(np.zeros(70_000, "f4"), STREAM)
        memory = weakref.ref(array._memory), weakref.ref(received._memory)
        copy = CudaMemory(280_000)  # the device would have to finish first
        gate = Gate(STREAM)
        handle = engine.submit(Kind.ALLREDUCE, array, received, name="kept", stream=STREAM)
        handle.finish()
        must("cuMemcpyAsync", copy.address, received.address, 280_000, STREAM)
        del array, received, handle
        gc.collect()
        # The device stands still before the operation.
        check.equal("kept meanwhile", [each() is None for each in memory], [False, False])
        gate.open()
        result = np.empty(70_000, "f4")
        must("cuMemcpyAsync", result.ctypes.data, copy.address, 280_000, STREAM)
        synchronize(STREAM)
        check.equal("sum", result, np.full(70_000, TOTAL + SIZE, "f4"))
        on_device.sweep()
        gc.collect()
        check.equal("freed then", [each() is None for each in memory], [True, True])
    check.equal("left", on_device.kept_buffers(), 0)


def check_allreduce_of_every_type_by_every_protocol():
    for kind in KINDS:
        for dtype in ("f2", "f4", "f8", "u1", "i1", "i2", "i4", "i8"):
            for op, expected in ((Op.SUM, TOTAL + SIZE), (Op.MIN, 1), (Op.MAX, SIZE)):
                values = np.full((3, 5), RANK + 1, dtype)
                mine, received = kind(values, STREAM), kind(np.zeros_like(values), STREAM)
                name = f"{kind.__name__} {dtype} {op.name}"
                handle = engine.submit(
                    Kind.ALLREDUCE, mine, received, name=name, op=op, stream=STREAM
                )
                check.equal("the handle's stream", handle.stream, STREAM)
                handle.finish()
                check.equal(name, received.get(), np.full((3, 5), expected, dtype))
                check.equal(f"what was sent, {name}", mine.get(), values)


def check_scales_and_averages():
    array = InterfaceArray(np.full(1001, RANK + 1, "f4"), STREAM)
    engine.submit(Kind.ALLREDUCE, array, array, op=Op.AVERAGE, prescale=2, postscale=4).finish()
    expected = 8 * (TOTAL + SIZE) / SIZE
    check.close("scaled average", array.get(), np.full(1001, expected), 1e-5 * expected)


def check_an_array_is_used_in_the_order_of_the_stream_that_it_names():
    # CUDA copies up to 64 KiB of pageable memory behind a gate without waiting for it.
    length = 16_000
    connect(length)
    for step in range(6):
        array = InterfaceArray(np.zeros(length, "f4"), STREAM)
        gate = Gate(STREAM)
        # What the operation has to find is still behind the gate when it is submitted.
        array.set(np.full(length, RANK + 1, "f4"))
        handle = engine.submit(Kind.ALLREDUCE, array, array, name="late")
        check.equal("its stream", handle.stream, STREAM)
        if OVER_NCCL:
            # Neither of these waits for the device, which stands still.
            handle.wait()
            check.equal("is it done", handle.poll(), False)
            gate.open()
        else:
            gate.open()
            handle.wait()
        handle.release()
        check.equal(f"step {step}", array.get(), np.full(length, TOTAL + SIZE, "f4"))


def check_the_producer_makes_another_stream_wait():
    connect(5000)
    for kind in (DlpackArray, BothArray):
        array, received = (kind(np.zeros(5000, "f4"), STREAM) for _ in range(2))
        gate = Gate(STREAM)
        array.set(np.full(5000, RANK + 1, "f4"))
        handle = engine.submit(Kind.ALLREDUCE, array, received, stream=OTHER)
        check.equal("streams that were asked for", (array.asked, received.asked), [[OTHER]] * 2)
        gate.open()
        handle.finish()
        result = received.get(OTHER)
        check.equal(kind.__name__, result, np.full(5000, TOTAL + SIZE, "f4"))


def check_the_default_stream_is_the_one_of_dlpack_too():
    array = DlpackArray(np.full(10, RANK + 1, "f4"), STREAM)
    handle = engine.submit(Kind.ALLREDUCE, array, array)
    # 1 is the legacy default stream in both protocols.
    check.equal("streams that were asked for", array.asked, (1, 1))
    check.equal("the handle's stream", handle.stream, 0)
    handle.finish()
    check.equal("sum", array.get(0), np.full(10, TOTAL + SIZE, "f4"))


def check_the_engines_own_memory_is_read_in_the_order_of_the_stream():
    for step in range(4):
        own = 100 * (RANK + 1)
        array = InterfaceArray(np.full((own, 3), RANK, "i4"), STREAM)
        handle = engine.submit(Kind.ALLGATHER, array, name="uneven")
        result = handle.wait()
        rows_of = [100 * (rank + 1) for rank in range(SIZE)]
        check.equal("rows", result.received_rows, rows_of)
        check.equal("place", result.on_device, True)
        check.raises(InvalidArgumentError, result.tobytes)
        content = result.cuda_bytes().__cuda_array_interface__
        check.equal("length", content["shape"], (result.nbytes,))
        check.equal("stream", content["stream"], STREAM)
        copy = CudaMemory(result.nbytes)
        must("cuMemcpyAsync", copy.address, content["data"][0], result.nbytes, STREAM)
        handle.release()
        gathered = np.empty((result.rows, 3), "i4")
        must("cuMemcpyAsync", gathered.ctypes.data, copy.address, result.nbytes, STREAM)
        synchronize(STREAM)
        expected = np.repeat(np.arange(SIZE, dtype="i4"), rows_of)[:, None].repeat(3, 1)
        check.equal(f"gathered in step {step}", gathered, expected)


def check_the_other_collectives():
    root = SIZE - 1
    array = BothArray(np.full((4, 2), RANK, "f8"), STREAM)
    engine.submit(Kind.BROADCAST, array, array, root=root).finish()
    check.equal("broadcast", array.get(), np.full((4, 2), root, "f8"))
    array = BothArray(np.arange(2 * SIZE, dtype="f4").reshape(2 * SIZE, 1), STREAM)
    part = BothArray(np.zeros((2, 1), "f4"), STREAM)
    engine.submit(Kind.REDUCE_SCATTER, array, part).finish()
    check.equal("reduce_scatter", part.get()[:, 0], SIZE * np.array([2 * RANK, 2 * RANK + 1]))
    array = BothArray(np.full((SIZE, 2), RANK, "i8"), STREAM)
    received = BothArray(np.zeros((SIZE, 2), "i8"), STREAM)
    engine.submit(Kind.ALLTOALL, array, received).finish()
    check.equal("alltoall", received.get()[:, 0], range(SIZE))
    empty = BothArray(np.zeros((0, 2), "f4"), STREAM)
    engine.submit(Kind.ALLREDUCE, empty, empty, shape=(0, 2)).finish()


def check_a_loop_of_prepared_operations_in_changing_streams():
    lengths = (3, 700, 300_001, 1)
    arrays = [InterfaceArray(np.zeros(length, "f4"), STREAM) for length in lengths]
    prepared = [
        engine.prepare(Kind.ALLREDUCE, array, array, name=f"gradient.{number}", stream=STREAM)
        for number, array in enumerate(arrays)
    ]
    # As in a training step, where a vector on the host tells who has which gradient.
    flags = np.zeros(len(arrays), "f4")
    of_flags = engine.prepare(Kind.ALLREDUCE, flags, flags, name="flags")
    before = engine.counters()["planned_buckets"]
    # The plan of the checks before this one has to be given up first.
    for step in range(16):
        stream = (STREAM, OTHER)[step % 2]
        for array in arrays:
            array.stream = stream
            array.set(np.full(array.shape, RANK + step, "f4"))
        flags[:] = RANK
        handles = [operation.submit(stream) for operation in prepared]
        handles.append(of_flags.submit())
        for handle in handles:
            handle.finish()
        check.equal("flags", flags, [TOTAL] * len(arrays))
        for array in arrays:
            check.equal(
                f"step {step}", array.get(), np.full(array.shape, TOTAL + SIZE * step, "f4")
            )
    if SIZE > 1 and not engine.counters()["planned_buckets"] > before:
        raise check.WrongValueError("no bucket of device memory was planned")


def check_groups_run_together():
    arrays = [InterfaceArray(np.full(n, RANK + 1, "f4"), STREAM) for n in (5, 4000, 1)]
    handles = [
        engine.submit(Kind.ALLREDUCE, a, a, name=f"g.{i}", group="g", group_size=len(arrays))
        for i, a in enumerate(arrays)
    ]
    for handle in handles:
        handle.finish()
    for array in arrays:
        check.equal("grouped", array.get(), np.full(array.shape, TOTAL + SIZE, "f4"))


def check_a_group_may_be_in_both_kinds_of_memory():
    for step in range(3):
        array = InterfaceArray(np.full(500, RANK + 1, "f4"), STREAM)
        host = np.full(70, RANK + 1, "f4")
        handles = [
            engine.submit(Kind.ALLREDUCE, each, each, name=f"m.{i}", group="m", group_size=2)
            for i, each in enumerate((array, host))
        ]
        for handle in handles:
            handle.finish()
        check.equal(f"on the device, step {step}", array.get(), np.full(500, TOTAL + SIZE, "f4"))
        check.equal(f"on the host, step {step}", host, np.full(70, TOTAL + SIZE, "f4"))


def check_calls_that_wait_at_once():
    for step in range(6):
        array = InterfaceArray(np.full(2000, RANK + 1, "f4"), STREAM)
        engine.call(Kind.ALLREDUCE, array, array, name="called", stream=STREAM)
        check.equal(f"step {step}", array.get(), np.full(2000, TOTAL + SIZE, "f4"))


def check_an_older_interface_is_ordered_by_dlpack():
    class Older(BothArray):
        @property
        def __cuda_array_interface__(self):
            described = super().__cuda_array_interface__
            del described["stream"]
            return {**described, "version": 2}

    array = Older(np.full(300, RANK + 1, "f4"), STREAM)
    handle = engine.submit(Kind.ALLREDUCE, array, array, stream=OTHER)
    check.equal("streams that were asked for", array.asked, [OTHER, OTHER])
    handle.finish()
    check.equal("sum", array.get(OTHER), np.full(300, TOTAL + SIZE, "f4"))


def check_buffers_of_a_dropped_handle_go_back_in_the_order_of_the_stream():
    for step in range(5):
        array = InterfaceArray(np.full(200_000, RANK + 1, "f4"), STREAM)
        handle = engine.submit(Kind.ALLREDUCE, array, array, name="dropped")
        del handle
        gc.collect()
        # The stream waits for the operation, so its next work finds the result.
        check.equal(f"step {step}", array.get(), np.full(200_000, TOTAL + SIZE, "f4"))
        del array


def check_what_the_host_or_the_device_must_not_touch_is_refused():
    array = BothArray(np.zeros(4, "f4"), STREAM)
    host = np.zeros(4, "f4")

    def refused(part, *arguments, **options):
        text = check.raises(
            InvalidArgumentError, lambda: engine.submit(Kind.ALLREDUCE, *arguments, **options)
        )
        if part not in text:
            raise check.WrongValueError(f"{text!r} does not say {part!r}")

    refused("send is in CUDA memory, recv in host memory", array, host)
    refused("send is in host memory, recv in CUDA memory", host, array)
    refused("per-thread default stream", array, array, stream=2)
    refused("is no CUDA stream", array, array, stream=-1)
    refused("a CUDA stream was given", host, host, stream=STREAM)
    for kind in KINDS:
        refused("read-only", array, kind(np.zeros(4, "f4"), STREAM, readonly=True))
    named = InterfaceArray(np.zeros(4, "f4"), STREAM)
    refused("is to follow stream", named, named, stream=OTHER)

    class Columns(InterfaceArray):
        @property
        def __cuda_array_interface__(self):
            return {**super().__cuda_array_interface__, "shape": (2, 1), "strides": (8, 4)}

    columns = Columns(np.zeros(4, "f4"), STREAM)
    refused("not contiguous", columns, columns)
    for blocking in (lambda: mpi_bridge.allreduce(array), lambda: mpi_bridge.broadcast(named)):
        text = check.raises(InvalidArgumentError, blocking)
        if "lies on an accelerator" not in text:
            raise check.WrongValueError(text)
    text = check.raises(InvalidArgumentError, lambda: mpi_bridge.buffer_of(Array(host, STREAM)))
    if "it is not a tensor" not in text:
        raise check.WrongValueError(text)
    # Nothing of this has reached the other ranks.
    engine.submit(Kind.ALLREDUCE, array, array).finish()


def check_device_memory_here_and_host_memory_there_is_a_mismatch():
    if SIZE == 1:
        return
    memory = np.zeros(4, "f4") if RANK == 0 else InterfaceArray(np.zeros(4, "f4"), STREAM)
    handle = engine.submit(Kind.ALLREDUCE, memory, memory, name="here and there")
    text = check.raises(MismatchError, handle.finish)
    if "kind of memory" not in text or "here and there" not in text:
        raise check.WrongValueError(text)
    # On both ranks the engine goes on, with both kinds of memory.
    array, host = InterfaceArray(np.ones(4, "f4"), STREAM), np.ones(4, "f4")
    engine.submit(Kind.ALLREDUCE, array, array, name="after it").finish()
    engine.call(Kind.ALLREDUCE, host, host, name="after it, on the host")
    check.equal("on the device", array.get(), np.full(4, SIZE, "f4"))
    check.equal("on the host", host, np.full(4, SIZE, "f4"))


def check_the_libraries_are_reported():
    check.equal("CUDA", engine.cuda_installed(), True)
    if not engine.nccl_version() >= 22000:
        raise check.WrongValueError(f"NCCL {engine.nccl_version()}")


def check_no_work_of_the_device_has_failed():
    # An address that was freed too early, or touched by the host, would have ended the device.
    synchronize(STREAM)
    synchronize(OTHER)
    alive = ctypes.c_uint64()
    must("cuMemAlloc_v2", ctypes.byref(alive), 8)
    must("cuMemFree_v2", alive)


if __name__ == "__main__":
    rows.run(globals())
