# SPDX-License-Identifier: Apache-2.0
"""mpi_bridge.engine, process sets, shared memory and objects, against values computed here.

Breaks when an operation reduces or moves wrongly, when a handle or a buffer dies too early, or when
an error goes unnoticed.
"""

import array
import gc
import json
import tempfile
import threading
from pathlib import Path

import check
import ml_dtypes
import numpy as np
import rows

import mpi_bridge
from mpi_bridge import Op, engine, memory, process_sets
from mpi_bridge.engine import Kind

mpi_bridge.init()
RANK, SIZE = mpi_bridge.rank(), mpi_bridge.size()
TOTAL = SIZE * (SIZE - 1) / 2
FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
INTEGERS = (np.uint8, np.int8, np.int16, np.int32, np.int64)


def finish(handle):
    result = handle.wait()
    copy = result, result.tobytes()
    handle.release()
    return copy


def check_allreduce_of_every_type_and_operation():
    for dtype in (*FLOATS, *INTEGERS):
        for op, expected in (
            (Op.SUM, TOTAL + SIZE),
            (Op.MIN, 1),
            (Op.MAX, SIZE),
            (Op.PRODUCT, np.prod(np.arange(SIZE) + 1)),
            (Op.AVERAGE, (TOTAL + SIZE) / SIZE),
        ):
            mine = np.full((2, 3), RANK + 1, dtype)
            received = np.zeros_like(mine)
            name = f"{np.dtype(dtype).name} {op.name}"
            engine.submit(Kind.ALLREDUCE, mine, received, name=name, op=op).finish()
            wanted = np.full((2, 3), expected).astype(dtype)
            check.equal(name, received.astype("f8"), wanted.astype("f8"))
            engine.call(Kind.ALLREDUCE, mine, mine, op=op)
            check.equal(f"{name} in place", mine.astype("f8"), wanted.astype("f8"))
    bits = np.array([1 << RANK], np.int32)
    engine.call(Kind.ALLREDUCE, bits, bits, op=Op.OR)
    check.equal("or", bits, [(1 << SIZE) - 1])
    flags = np.array([RANK == 0, True])
    engine.call(Kind.ALLREDUCE, flags, flags, op=Op.AND)
    check.equal("and", flags, [SIZE == 1, True])


def check_scaling():
    x = np.ones(4, np.float32)
    engine.call(Kind.ALLREDUCE, x, x, prescale=3.0, postscale=0.5)
    check.equal("scaled", x, [1.5 * SIZE] * 4)
    scale = {"prescale": 0.0}
    check.raises(ValueError, lambda: engine.submit(Kind.ALLREDUCE, x, x, **scale))


def check_results_in_memory_of_the_engine():
    mine = np.full((RANK + 1, 2), RANK, np.int64)
    handle = engine.submit(Kind.ALLGATHER, mine, name="gather")
    result, content = finish(handle)
    check.equal("rows", result.rows, SIZE * (SIZE + 1) // 2)
    check.equal("rows of each", result.received_rows, np.arange(SIZE) + 1)
    wanted = np.repeat(np.arange(SIZE), (np.arange(SIZE) + 1) * 2)
    check.equal("content", np.frombuffer(content, np.int64), wanted)
    splits = [r + 1 for r in range(SIZE)]
    mine = np.concatenate([np.full(n, RANK * 10 + r, "u1") for r, n in enumerate(splits)])
    result, content = finish(engine.submit(Kind.ALLTOALL, mine, splits=splits))
    wanted = np.repeat(np.arange(SIZE) * 10 + RANK, RANK + 1)
    check.equal("alltoall", np.frombuffer(content, "u1"), wanted)
    check.raises(
        ValueError, lambda: engine.submit(Kind.ALLTOALL, mine, splits=[len(mine)] * (SIZE + 1))
    )
    whole = np.arange(2.0 * SIZE)
    result, content = finish(engine.submit(Kind.REDUCE_SCATTER, whole, op=Op.SUM))
    share = whole[2 * RANK : 2 * RANK + 2] * SIZE
    check.equal("reduce_scatter", np.frombuffer(content), share)
    target = np.zeros(2)
    handle = engine.submit(Kind.REDUCE_SCATTER, whole)
    handle.wait().copy_to(target)
    handle.release()
    check.equal("copied", target, share)


def check_elements_that_can_be_moved_but_not_reduced():
    for value in (
        np.array([RANK, 7], np.uint16),
        np.array([[RANK + 1j]]),
        array.array("H", [RANK]),
    ):
        handle = engine.submit(Kind.ALLGATHER, value)
        _, content = finish(handle)
        item = np.asarray(value)
        everyone = np.frombuffer(content, item.dtype).reshape(-1, *item.shape[1:])
        check.equal("own part", everyone[RANK * len(item) : (RANK + 1) * len(item)], item)
    words = np.zeros(2, np.uint16)
    check.raises(ValueError, lambda: engine.submit(Kind.ALLREDUCE, words, words))


def check_broadcast_and_reduce_from_every_root():
    for root in range(SIZE):
        value = bytearray(b"from the root") if root == RANK else bytearray(13)
        engine.call(Kind.BROADCAST, value, value, root=root)
        check.equal("broadcast", bytes(value) == b"from the root", True)
        mine = np.full(3, float(RANK))
        received = np.full(3, -1.0)
        engine.submit(Kind.REDUCE, mine, received, root=root, name="reduce").finish()
        check.equal("reduce", received, [TOTAL if root == RANK else -1.0] * 3)


def check_groups_and_prepared_operations():
    buffers = [np.zeros(5, np.float32) for _ in range(3)]
    operations = [
        engine.prepare(
            Kind.ALLREDUCE, buffer, buffer, name=f"member {i}", group="group", group_size=3
        )
        for i, buffer in enumerate(buffers)
    ]
    for step in range(5):
        for i, buffer in enumerate(buffers):
            buffer[:] = step + i
        handles = [operation.submit() for operation in operations]
        for handle in handles:
            handle.finish()
        for i, buffer in enumerate(buffers):
            check.equal("member", buffer, [(step + i) * SIZE] * 5)


def check_submissions_from_many_threads():
    received = [np.full(3, float(i)) for i in range(8)]

    def submit(number):
        for step in range(5):
            received[number][:] = number + step
            engine.submit(
                Kind.ALLREDUCE, received[number], received[number], name=f"thread {number}"
            ).finish()

    order = range(8) if RANK % 2 else reversed(range(8))
    threads = [threading.Thread(target=submit, args=(number,)) for number in order]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(8):
        check.equal("thread", received[number], [(number + 4) * SIZE] * 3)


def check_a_handle_keeps_its_buffers():
    handle = engine.submit(Kind.ALLGATHER, np.full(100000, RANK, np.int32), name="kept")
    gc.collect()
    _, content = finish(handle)
    check.equal("content", np.frombuffer(content, np.int32)[::100000], np.arange(SIZE))
    check.raises(ValueError, handle.wait)
    check.raises(ValueError, handle.poll)
    engine.submit(Kind.ALLGATHER, np.zeros(3), name="forgotten")
    gc.collect()
    engine.submit(Kind.ALLGATHER, np.zeros(3), name="forgotten").finish()


def check_a_bounded_wait_leaves_the_operation_alone():
    x = np.ones(1)
    if SIZE > 1 and RANK == 0:
        handle = engine.submit(Kind.ALLREDUCE, x, x, name="late")
        check.raises(mpi_bridge.CollectiveTimeoutError, lambda: handle.wait(0.05))
        check.equal("not done", handle.poll(), False)
    mpi_bridge.engine.barrier()
    if RANK > 0 or SIZE == 1:
        handle = engine.submit(Kind.ALLREDUCE, x, x, name="late")
    handle.finish()
    check.equal("sum", x, [SIZE])


def check_process_sets():
    check.equal("all", process_sets.ids(), [0])
    check.equal("ranks", process_sets.ranks(0), np.arange(SIZE))
    check.equal("rank", process_sets.rank(0), RANK)
    check.raises(ValueError, lambda: process_sets.size(77))
    if SIZE == 1:
        check.raises(ValueError, lambda: process_sets.add([0]))
        return
    last = process_sets.add([SIZE - 1])
    check.equal("ids", process_sets.ids(), [0, last])
    check.equal("rank", process_sets.rank(last), 0 if RANK == SIZE - 1 else -1)
    x = np.full(2, float(RANK))
    if RANK == SIZE - 1:
        engine.call(Kind.ALLREDUCE, x, x, process_set=last)
        check.equal("sum", x, [RANK] * 2)
    else:
        wrong = {"process_set": last}
        check.raises(ValueError, lambda: engine.submit(Kind.ALLREDUCE, x, x, **wrong))
    check.raises(ValueError, lambda: process_sets.add([SIZE - 1]))
    process_sets.remove(last)
    check.equal("removed", process_sets.ids(), [0])


def check_shared_memory():
    block = memory.allocate(3 << 20)
    values = np.frombuffer(block, np.float32)
    del block
    values[:] = RANK
    engine.call(Kind.ALLREDUCE, values, values, name="shared")
    check.equal("sum", values[:: 1 << 18], [TOTAL] * 3)
    mpi_bridge.shutdown()
    check.equal("readable after shutdown", values[:: 1 << 18], [TOTAL] * 3)
    values[0] = 5
    mpi_bridge.init()
    engine.call(Kind.ALLREDUCE, values, values, name="no longer shared")
    check.equal("still of use", values[0], 5 * SIZE)


def check_objects():
    for root in range(SIZE):
        value = {"from": RANK, "text": "x" * RANK}
        check.equal("broadcast", mpi_bridge.broadcast_object(value, root)["from"], root)
    gathered = mpi_bridge.allgather_object(["x"] * RANK)
    check.equal("allgather", [len(each) for each in gathered], np.arange(SIZE))
    check.equal("nothing", mpi_bridge.broadcast_object(None) is None, True)


def check_join():
    x = np.ones(1)
    for batch in range(RANK):
        engine.call(Kind.ALLREDUCE, x, x, name=f"batch {batch}")
        x[:] = 1
    check.equal("last", engine.join(), SIZE - 1)


def check_timeline_and_counters():
    before = engine.counters()["operations"]["allreduce"]
    with tempfile.TemporaryDirectory() as directory:
        engine.timeline_start(f"{directory}/line")
        x = np.ones(1)
        engine.call(Kind.ALLREDUCE, x, x, name="seen")
        engine.timeline_stop()
        engine.timeline_stop()
        text = Path(directory, f"line.{RANK}.json").read_text()
        names = [event.get("args", {}).get("name") for event in json.loads(text)]
        check.equal("seen", "seen" in names, True)
        check.raises(ValueError, lambda: engine.timeline_start(f"{directory}/missing/line"))
    check.equal("counted", engine.counters()["operations"]["allreduce"], before + 1)


def check_a_result_that_does_not_fit_is_an_error_on_every_rank():
    last = SIZE - 1
    mine = np.full((2, 3), RANK, np.int32)
    for kind, splits in ((Kind.ALLGATHER, None), (Kind.ALLTOALL, [0] * last + [2])):
        rows_here = 2 * SIZE if kind == Kind.ALLGATHER or last == RANK else 0
        for missing in (0, 1, 2 * SIZE):
            room = rows_here - missing if last == RANK else rows_here
            received = np.full((room, 3), -1, np.int32)
            handle = engine.submit(kind, mine, received, name="fitting", splits=splits)
            if missing == 0:
                handle.finish()
                check.equal("rows", received[:, 0], np.repeat(np.arange(SIZE), 2)[:room])
                continue
            text = check.raises(mpi_bridge.MismatchError, handle.finish)
            check.equal("names the rank", f"on rank {last}, where recv can hold" in text, True)
            check.equal("nothing is written", received, np.full_like(received, -1))
    engine.barrier()


def check_disagreement_is_an_error_on_every_rank():
    if SIZE == 1:
        return
    x = np.zeros(RANK + 1)
    text = check.raises(
        mpi_bridge.MismatchError, lambda: engine.call(Kind.ALLREDUCE, x, x, name="unlike")
    )
    check.equal("names the tensor", "unlike" in text, True)
    engine.barrier()


if __name__ == "__main__":
    rows.run(globals())
