# SPDX-License-Identifier: Apache-2.0
"""Every collective of horovod.tensorflow, eagerly and in a tf.function, with its gradient."""

import check
import numpy as np
import rows
import tensorflow as tf

import horovod.tensorflow as hvd
from mpi_bridge import world

tf.get_logger().setLevel("ERROR")
hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
TOTAL = SIZE * (SIZE + 1) // 2  # the sum of r + 1 over all ranks
DTYPES = (
    *(tf.uint8, tf.int8, tf.int16, tf.int32, tf.int64),
    *(tf.float16, tf.bfloat16, tf.float32, tf.float64),
)


def in_both_modes(what, function, *tensors):
    """Return the result, after it was found to be the same eagerly and in a graph."""
    eager = function(*tensors)
    graph = tf.function(function, autograph=False)(*tensors)
    for left, right in zip(tf.nest.flatten(eager), tf.nest.flatten(graph)):
        check.equal(f"{what} in a graph", right.numpy(), left.numpy())
    return eager


def mine(*shape, dtype=tf.float32):
    return tf.cast(tf.fill(shape, RANK + 1), dtype)


def check_allreduce_of_every_type():
    for dtype in DTYPES:
        result = in_both_modes(
            f"sum of {dtype.name}", lambda x: hvd.allreduce(x, op=hvd.Sum), mine(3, 2, dtype=dtype)
        )
        check.equal(f"{dtype.name}", result.dtype == dtype, True)
        check.equal(f"sum of {dtype.name}", result.numpy().astype("f8"), np.full((3, 2), TOTAL))
    average = in_both_modes("average", hvd.allreduce, mine(5))
    check.close("average", average, np.full(5, TOTAL / SIZE), 1e-6)
    integers = hvd.allreduce(tf.fill([3], 7 * (RANK + 1)))
    check.equal("average of integers", integers, np.full(3, 7 * TOTAL // SIZE))


def check_allreduce_with_options():
    def all_of_them(x):
        return {
            "min": hvd.allreduce(x, op=hvd.Min),
            "max": hvd.allreduce(x, op=hvd.Max),
            "product": hvd.allreduce(x, op=hvd.Product),
            "scaled": hvd.allreduce(x, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5),
            "average=False": hvd.allreduce(x, average=False),
            "named": hvd.allreduce(x, op=hvd.Sum, name="named", ignore_name_scope=True),
            "fp16": hvd.allreduce(x, op=hvd.Sum, compression=hvd.Compression.fp16),
            "bf16": hvd.allreduce(x, op=hvd.Sum, compression=hvd.Compression.bf16),
        }

    results = in_both_modes("options", all_of_them, mine(4))
    expected = {"min": 1, "max": SIZE, "product": np.prod(np.arange(1, SIZE + 1))}
    for name, result in results.items():
        check.close(name, result, np.full(4, expected.get(name, TOTAL)), 1e-6)
        check.equal(f"type with {name}", result.dtype == tf.float32, True)
    text = check.raises(ValueError, lambda: hvd.allreduce(mine(1), average=True, op=hvd.Sum))
    check.equal("op and average", "not both" in text, True)
    check.raises(NotImplementedError, lambda: hvd.allreduce(mine(1), op=hvd.Adasum))
    check.equal("a scalar", hvd.allreduce(tf.constant(RANK + 1.0), op=hvd.Sum), TOTAL)
    variable = tf.Variable(mine(2))
    check.equal("a variable", hvd.allreduce(variable, op=hvd.Sum), np.full(2, TOTAL))


def check_sparse_allreduce():
    def reduce(values, indices):
        slices = tf.IndexedSlices(values, indices, dense_shape=tf.constant([4, 2]))
        reduced = hvd.allreduce(slices)
        return tf.math.unsorted_segment_sum(reduced.values, reduced.indices, 4)

    indices = tf.constant([0, min(RANK + 1, 3)])
    result = in_both_modes("sparse", reduce, mine(2, 2), indices)
    expected = np.zeros((4, 2))
    for rank in range(SIZE):
        expected[[0, min(rank + 1, 3)]] += (rank + 1) / SIZE
    check.close("sparse", result, expected, 1e-6)
    slices = tf.IndexedSlices(mine(1, 2), tf.constant([0]))
    check.raises(NotImplementedError, lambda: hvd.allreduce(slices, op=hvd.Max))
    integers = tf.IndexedSlices(mine(1, dtype=tf.int32), tf.constant([0]))
    total = hvd.allreduce(integers, op=hvd.Sum, prescale_factor=2.0).values
    check.equal("integers", tf.reduce_sum(total), 2 * TOTAL)
    if SIZE > 1:
        # Each value times 1 / SIZE would be 0.
        check.raises(NotImplementedError, lambda: hvd.allreduce(integers))


def check_grouped_allreduce():
    def reduce(a, b, c):
        return hvd.grouped_allreduce([a, b, c], op=hvd.Sum)

    inputs = mine(3), mine(2, 2, dtype=tf.float64), mine(1, dtype=tf.int32)
    for result, tensor in zip(in_both_modes("grouped", reduce, *inputs), inputs):
        check.equal("grouped", result, np.full(tensor.shape, TOTAL))
    check.equal("no tensors", hvd.grouped_allreduce([]), [])


def check_allgather():
    expected = np.concatenate([np.full((r + 1, 2), r + 1) for r in range(SIZE)])
    uneven = in_both_modes("allgather", hvd.allgather, mine(RANK + 1, 2))
    check.equal("allgather", uneven, expected)
    check.equal("a scalar", hvd.allgather(tf.constant(RANK)), np.arange(SIZE))
    flags = hvd.allgather(tf.constant([RANK % 2 == 0]))
    check.equal("booleans", flags, np.arange(SIZE) % 2 == 0)
    empty = hvd.allgather(tf.zeros((0 if RANK else 2, 3)))
    check.equal("some ranks without rows", empty.shape, (2, 3))

    def both(a, b):
        return hvd.grouped_allgather([a, b])

    first, second = in_both_modes("grouped", both, mine(RANK + 1, 2), mine(2, dtype=tf.int64))
    check.equal("grouped, first", first, expected)
    check.equal("grouped, second", second, np.repeat(np.arange(SIZE) + 1, 2))


def check_broadcast():
    for root in range(SIZE):
        result = in_both_modes("broadcast", lambda x, r=root: hvd.broadcast(x, r), mine(2, 3))
        check.equal("broadcast", result, np.full((2, 3), root + 1))
    check.equal("of bool", hvd.broadcast(tf.constant([RANK == 0]), 0), [True])


def check_scripts_find_names_where_horovod_has_them():
    from horovod.tensorflow import mpi_ops

    for name in ("init", "rank", "local_size", "Average", "Max", "add_process_set", "allgather"):
        check.equal(name, getattr(mpi_ops, name) is getattr(hvd, name), True)


def check_alltoall():
    def uneven(x, splits):
        return hvd.alltoall(x, splits=splits)

    splits = tf.constant([r + 1 for r in range(SIZE)])
    rows, received = in_both_modes("alltoall", uneven, mine(TOTAL, 2), splits)
    check.equal("received splits", received, np.full(SIZE, RANK + 1))
    check.equal("rows", rows, np.repeat(np.arange(SIZE) + 1, RANK + 1)[:, None] * np.ones((1, 2)))
    even = in_both_modes("even alltoall", hvd.alltoall, mine(SIZE))
    check.equal("even alltoall", even, np.arange(SIZE) + 1)
    check.raises(ValueError, lambda: hvd.alltoall(mine(3), splits=[4] + [0] * (SIZE - 1)))
    part, _ = in_both_modes("part", uneven, mine(SIZE + 2), tf.ones(SIZE, tf.int32))
    check.equal("rows beyond the splits are not sent", part, np.arange(SIZE) + 1)


def check_reducescatter():
    rows = [(SIZE + 2) // SIZE + (1 if r < (SIZE + 2) % SIZE else 0) for r in range(SIZE)]
    x = tf.range(SIZE + 2, dtype=tf.float32)[:, None] * mine(1, 2)
    own = slice(sum(rows[:RANK]), sum(rows[: RANK + 1]))
    expected = (np.arange(SIZE + 2.0)[:, None] * np.full((1, 2), TOTAL))[own]
    result = in_both_modes("sum", lambda x: hvd.reducescatter(x, op=hvd.Sum), x)
    check.close("reducescatter", result, expected, 1e-5)
    average = in_both_modes("average", hvd.reducescatter, x)
    check.close("average", average, expected / SIZE, 1e-5)

    def grouped(a, b):
        return hvd.grouped_reducescatter([a, b], op=hvd.Sum, prescale_factor=0.5)

    for part in in_both_modes("grouped", grouped, x, x):
        check.close("grouped", part, expected / 2, 1e-5)


def check_queries_in_graphs():
    @tf.function
    def numbers():
        queries = (hvd.rank_op, hvd.size_op, hvd.local_rank_op, hvd.local_size_op)
        return [*(query() for query in queries), hvd.process_set_included_op()]

    expected = [RANK, SIZE, hvd.local_rank(), hvd.local_size(), 1]
    check.equal("in a graph", [int(number) for number in numbers()], expected)
    check.equal("eagerly", hvd.rank_op(), RANK)


def gradient_of(function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
        # Weights that differ by rank and element show where a gradient has come from.
        weights = (RANK + 1.0) * tf.cast(tf.range(1, tf.size(y) + 1), tf.float32)
        loss = tf.reduce_sum(tf.reshape(y, [-1]) * weights)
    return tape.gradient(loss, x)


def check_gradients():
    def both(what, function, x):
        return in_both_modes(f"gradient of {what}", lambda x: gradient_of(function, x), x)

    factor, positions = TOTAL / SIZE, np.arange(1.0, 4)
    average = both("allreduce", hvd.allreduce, mine(3))
    check.close("of the average", average, factor * positions, 1e-5)
    scaled = both(
        "sum", lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=3.0, name="g"), mine(3)
    )
    check.close("of the scaled sum", scaled, 3 * TOTAL * positions, 1e-4)
    first = RANK * (RANK + 1) // 2
    gathered = both("allgather", hvd.allgather, mine(RANK + 1))
    check.close("of allgather", gathered, factor * np.arange(first + 1, first + RANK + 2), 1e-5)
    sent = both("broadcast", lambda x: hvd.broadcast(x, SIZE - 1), mine(3))
    expected = factor * positions if RANK == SIZE - 1 else np.zeros(3)
    check.close("of broadcast", sent, expected, 1e-5)
    back = both("alltoall", hvd.alltoall, mine(SIZE))
    expected = (np.arange(SIZE) + 1) * (RANK + 1)
    check.close("of alltoall", back, expected, 1e-5)
    back = both("a part", lambda x: hvd.alltoall(x, splits=[1] * SIZE)[0], mine(SIZE + 2))
    check.close("of rows that are not sent", back, [*expected, 0, 0], 1e-5)
    with tf.GradientTape() as tape:
        x = tf.ones([SIZE], tf.float64)
        tape.watch(x)
        y = hvd.alltoall(x)
    back = tape.gradient(y, x, tf.ones([SIZE]))
    check.close("of alltoall, given in another type", back, np.ones(SIZE), 0)
    parts = np.concatenate([(r + 1) * np.arange(1, 3) for r in range(SIZE)])
    scattered = both("sum", lambda x: hvd.reducescatter(x, op=hvd.Sum), mine(2 * SIZE))
    check.close("of reducescatter", scattered, SIZE * parts, 1e-4)
    check.close("its average", both("average", hvd.reducescatter, mine(2 * SIZE)), parts, 1e-4)
    with tf.GradientTape() as tape:
        x = mine(2)
        tape.watch(x)
        a, b = hvd.grouped_allreduce([x, 2 * x], op=hvd.Sum)
        loss = tf.reduce_sum(a + b)
    check.close("of a group", tape.gradient(loss, x), np.full(2, 3 * SIZE), 1e-5)
    check.raises(
        NotImplementedError, lambda: gradient_of(lambda x: hvd.allreduce(x, op=hvd.Max), mine(2))
    )


def check_graphs_see_the_ranks_of_the_time_when_they_run():
    """Ranks of an elastic job may go on in their processes when others are lost."""
    local = tf.Variable([1.0])

    @tf.function
    def average(values):
        return hvd.allreduce(tf.IndexedSlices(values, tf.constant([0]))).values

    @tf.function
    def gradients(x):
        results = []
        for operation in (
            hvd.allgather,
            lambda x: hvd.broadcast(x, 0),
            lambda x: hvd.reducescatter(x, op=hvd.Sum),
        ):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(operation(x) * 3.0)
            results.append(tape.gradient(y, x))
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(local * 3.0)
        tape = hvd.DistributedGradientTape(tape)
        tape.register_local_source(local)
        return [*results, tape.gradient(y, local)]

    here = tf.ones((SIZE, 1))
    check.equal("average of all", average(tf.constant([2.0])), [2.0 / SIZE] * SIZE)
    of_all = gradients(here)
    check.equal("of allgather", of_all[0], np.full((SIZE, 1), 3.0))
    check.equal("of broadcast", of_all[1], np.full((SIZE, 1), 0.0 if RANK else 3.0))
    check.equal("of reducescatter", of_all[2], np.full((SIZE, 1), 3.0 * SIZE))
    check.equal("local", of_all[3], [3.0 / SIZE])
    hvd.shutdown()
    world.join_through(lambda data, _seconds: [data], 0, 1)
    try:
        check.equal("average of one", average(tf.constant([2.0])), [2.0])
        for result in gradients(here)[:3]:
            check.equal("gradient of one", result, np.full((SIZE, 1), 3.0))
        check.equal("local", gradients(here)[3], [3.0])
    finally:
        hvd.shutdown()
        hvd.init()


def check_process_sets():
    if SIZE == 1:
        return
    low = hvd.add_process_set(list(range(SIZE - 1)))
    high = hvd.add_process_set([SIZE - 1])
    own = low if RANK < SIZE - 1 else high
    total = sum(r + 1 for r in own.ranks)
    for name, result, expected in (
        ("allreduce", hvd.allreduce(mine(2), op=hvd.Sum, process_set=own), np.full(2, total)),
        ("allgather", hvd.allgather(mine(1), process_set=own), np.array(own.ranks) + 1),
        ("broadcast", hvd.broadcast(mine(1), own.ranks[0], process_set=own), [own.ranks[0] + 1]),
        ("size", hvd.size_op(own.process_set_id), own.size()),
        ("included", hvd.process_set_included_op(low.process_set_id), int(RANK < SIZE - 1)),
    ):
        check.equal(f"{name} in a process set", result, expected)
    check.equal("objects", hvd.allgather_object(RANK, process_set=own), own.ranks)
    other = high if own is low else low
    check.raises(ValueError, lambda: hvd.allreduce(mine(1), process_set=other))
    for process_set in (low, high):
        hvd.remove_process_set(process_set)


def check_variables_and_objects():
    made = [tf.Variable(mine(2)), tf.Variable(RANK, dtype=tf.int64), tf.Variable(RANK > 0)]
    hvd.broadcast_variables(made, root_rank=SIZE - 1)
    check.equal("variables", made[0].numpy(), np.full(2, SIZE))
    check.equal("a variable of bool", made[2].numpy(), SIZE > 1)
    made[0].assign(mine(2))

    @tf.function
    def in_a_graph():
        return hvd.broadcast_(made, 0)

    check.equal("broadcast_", in_a_graph()[0], np.ones(2))
    check.equal("in place", made[0].numpy(), np.ones(2))
    check.equal("object", hvd.broadcast_object({"from": RANK}, SIZE - 1)["from"], SIZE - 1)
    check.equal("object by function", hvd.broadcast_object_fn(0)(RANK), 0)
    check.equal("objects", hvd.allgather_object("x" * RANK), ["x" * r for r in range(SIZE)])
    check.raises(RuntimeError, lambda: hvd.broadcast_global_variables(0))


def check_session_graphs():
    with tf.Graph().as_default():
        variable = tf.compat.v1.get_variable("v", initializer=tf.constant([float(RANK)] * 3))
        other = tf.compat.v1.get_variable("w", initializer=tf.constant(float(RANK)))
        # Nothing but the order kept for such graphs makes the ranks begin with the same one.
        sums = [hvd.allreduce(variable * i, op=hvd.Sum) for i in range(1, 9)]
        hook = hvd.BroadcastGlobalVariablesHook(SIZE - 1)
        with tf.compat.v1.train.SingularMonitoredSession(hooks=[hook]) as session:
            check.equal("the hook", session.run([variable, other])[1], SIZE - 1)
            values = session.run(sums)
        check.equal("sums", values[7], np.full(3, 8 * SIZE * (SIZE - 1)))


def check_sessions_run_only_what_is_asked_for():
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None])
        variable = v1.get_variable("v", initializer=tf.constant(float(RANK)))
        optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0))
        step = optimizer.minimize(tf.reduce_sum(x) * variable)
        fed = v1.placeholder(tf.float32, [])
        metric = hvd.allreduce(fed, op=hvd.Sum)
        counter = v1.get_variable("c", initializer=tf.constant(0.0))
        counted = hvd.allreduce(tf.identity(v1.assign_add(counter, 1.0)), op=hvd.Sum)
        late = hvd.allreduce(variable, op=hvd.Sum)
        last = hvd.join()
        hook = hvd.BroadcastGlobalVariablesHook(SIZE - 1)
        with v1.train.SingularMonitoredSession(hooks=[hook]) as session:
            check.equal("the hook", session.run(variable), SIZE - 1)
            check.equal("another placeholder", session.run(metric, {fed: RANK + 1}), TOTAL)
            session.run(step, {x: [RANK + 1.0]})
            check.close("a step", session.run(variable), SIZE - 1 - TOTAL / SIZE, 1e-5)
            session.run(late)
            check.equal("no assignment", session.run(counter), 0)
            check.equal("an assignment", session.run(counted), SIZE)
            check.equal("the last", session.run(last) in range(SIZE), True)


def check_join():
    if RANK == 0:  # goes on while the others have no more data
        alone = tf.function(lambda: hvd.allreduce(tf.ones(3), op=hvd.Sum, name="longer"))()
        check.equal("the others count as zeros", alone, np.ones(3))
    check.equal("join", hvd.join().numpy() in range(SIZE), True)


def check_other_things():
    hvd.barrier()
    check.raises(NotImplementedError, lambda: tf.function(hvd.allreduce, jit_compile=True)(mine(1)))

    @tf.function
    def loop():
        total = tf.constant(0.0)
        for _ in tf.range(5):
            total += hvd.allreduce(total + 1.0, op=hvd.Average, name="in_a_loop")
        return total

    check.close("a loop", loop(), 31, 1e-4)
    if SIZE == 1:
        return
    text = check.raises(
        hvd.HorovodInternalError, lambda: hvd.allreduce(tf.zeros(RANK + 1), name="mismatch")
    )
    check.equal("the mismatch is explained", "mismatch" in text, True)
    text = check.raises(
        tf.errors.OpError,
        lambda: tf.function(lambda: hvd.allreduce(tf.zeros(RANK + 1), name="mismatch"))(),
    )
    check.equal("also in a graph", "mismatch" in text, True)


if __name__ == "__main__":
    rows.run(globals())
