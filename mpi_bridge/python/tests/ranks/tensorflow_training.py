# SPDX-License-Identifier: Apache-2.0
"""N ranks with batch B train like one with batch N*B in loops of horovod.tensorflow."""

import os

import check
import keras
import numpy as np
import rows
import tensorflow as tf

import horovod.tensorflow as hvd
from horovod._keras import parts
from mpi_bridge import engine

tf.get_logger().setLevel("ERROR")
hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
BATCH, STEPS = 4, 5

random = np.random.default_rng(7)
X = random.normal(size=(STEPS, SIZE * BATCH, 6)).astype("f4")
Y = np.sin(X[..., :2])
IDS = random.integers(0, 9, size=(STEPS, SIZE * BATCH))
MINE = slice(RANK * BATCH, (RANK + 1) * BATCH)


def make_model(seed=1):
    keras.utils.set_random_seed(seed)
    layers = [keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(2)]
    return keras.Sequential([keras.Input((6,)), *layers])


def make_embedding():
    keras.utils.set_random_seed(3)
    return keras.Sequential(
        [keras.Input((), dtype="int32"), keras.layers.Embedding(9, 4), keras.layers.Dense(2)]
    )


def loss_of(model, x, y):
    return tf.reduce_mean(tf.square(model(x, training=True) - y))


def train(model, optimizer, inputs, rows, wrap=lambda tape: tape, in_graph=True):
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(model, x, y)
        tape = wrap(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    compiled = tf.function(step) if in_graph else step
    for x, y in zip(inputs, Y):
        compiled(tf.constant(x[rows]), tf.constant(y[rows]))
    return model


def compare(what, model, expected, tolerance=2e-5):
    for actual, wanted in zip(model.weights, expected.weights):
        check.close(f"{what}: {actual.path}", actual.numpy(), wanted.numpy(), tolerance)
        check.same_on_all_ranks(f"{what}: {actual.path}", actual.numpy())


def optimizers():
    return {
        "SGD": keras.optimizers.SGD(0.05),
        "momentum": keras.optimizers.SGD(0.05, momentum=0.9),
        "Adam": keras.optimizers.Adam(0.01),
    }


def check_tapes_train_like_one_process():
    for name in optimizers():
        expected = train(make_model(), optimizers()[name], X, slice(None))
        for in_graph in (True, False):
            model = make_model()
            train(model, optimizers()[name], X, MINE, hvd.DistributedGradientTape, in_graph)
            compare(f"{name}, graph: {in_graph}", model, expected)


def check_tape_options():
    expected = train(make_model(), optimizers()["momentum"], X, slice(None))
    model = make_model()
    kernels, biases = model.trainable_variables[::2], model.trainable_variables[1::2]
    for options, tolerance in (
        ({"gradient_predivide_factor": 2.0}, 2e-5),
        ({"num_groups": 2}, 2e-5),
        ({"groups": [kernels, biases]}, 2e-5),
        ({"compression": hvd.Compression.fp16}, 5e-3),
        ({"compression": hvd.Compression.bf16}, 5e-2),
    ):
        model.set_weights(make_model().get_weights())

        def wrap(tape, options=options):
            return hvd.DistributedGradientTape(tape, **options)

        train(model, optimizers()["momentum"], X, MINE, wrap)
        compare(str(list(options)), model, expected, tolerance)
    check.raises(
        ValueError,
        lambda: hvd.DistributedGradientTape(
            tf.GradientTape(), op=hvd.Sum, gradient_predivide_factor=2.0
        ),
    )


def check_gradients_of_tapes():
    a, b, unused = tf.Variable(RANK + 1.0), tf.Variable([1.0, 2.0]), tf.Variable(0.0)

    def tape_of(persistent=False, **options):
        with hvd.DistributedGradientTape(tf.GradientTape(persistent), **options) as tape:
            loss = (RANK + 1) * (3 * a + tf.reduce_sum(b * b))
        return tape, loss

    total = SIZE * (SIZE + 1) / 2
    tape, loss = tape_of(op=hvd.Sum)
    found = tape.gradient(loss, {"a": a, "more": [b, unused]})
    check.close("a structure of sources", found["a"], 3 * total, 1e-5)
    check.close("nested", found["more"][0], total * 2 * b.numpy(), 1e-5)
    check.equal("without a gradient", found["more"][1] is None, True)
    tape, loss = tape_of(persistent=True)
    for _ in range(2):
        check.close("a persistent tape", tape.gradient(loss, a), 3 * total / SIZE, 1e-5)
    tape, loss = tape_of()
    tape.register_local_source(a)
    local, reduced = tape.gradient(loss, [a, b])
    check.close("a local source", local, 3 * (RANK + 1) / SIZE, 1e-5)
    check.close("beside it", reduced, total / SIZE * 2 * b.numpy(), 1e-5)
    tape, loss = tape_of(scale_local_gradients=False)
    tape.register_local_source(a)
    check.close("not scaled", tape.gradient(loss, [a, b])[0], 3 * (RANK + 1), 1e-5)
    if SIZE > 2:
        pair = hvd.add_process_set([0, 1])
        tape, loss = tape_of(process_set=pair)
        expected = 4.5 if RANK < 2 else 3 * (RANK + 1)
        check.close("in a process set", tape.gradient(loss, a), expected, 1e-5)
        hvd.remove_process_set(pair)


def check_partial_tape():
    model = make_model(seed=RANK)
    first = model.layers[0]
    with tf.GradientTape(persistent=True) as tape:
        loss = loss_of(model, X[0][MINE], Y[0][MINE])
    plain = tape.gradient(loss, model.trainable_variables)
    partial = hvd.PartialDistributedGradientTape(tape, local_layers=first)
    mixed = partial.gradient(loss, model.trainable_variables)
    for i in range(2):
        check.close("local layers", mixed[i], plain[i] / SIZE, 1e-6)
    for i in (2, 3):
        check.same_on_all_ranks("other layers", mixed[i].numpy())


def check_sparse_gradients():
    def sgd():
        return keras.optimizers.SGD(0.5)

    expected = train(make_embedding(), sgd(), IDS, slice(None))
    for sparse_as_dense in (False, True):

        def wrap(tape, dense=sparse_as_dense):
            return hvd.DistributedGradientTape(tape, sparse_as_dense=dense)

        for in_graph in (True, False):
            model = train(make_embedding(), sgd(), IDS, MINE, wrap, in_graph)
            compare(f"sparse, as dense: {sparse_as_dense}", model, expected)


def check_gradients_travel_in_parts():
    usual, parts.PART_BYTES = parts.PART_BYTES, 64  # so that these small models have several
    check_tapes_train_like_one_process()
    check_tape_options()
    check_sparse_gradients()
    parts.PART_BYTES = usual


def check_two_models_with_the_same_names():
    expected = [train(make_model(), optimizers()["SGD"], X, slice(None)), None]
    wide = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
    wide.layers[0].kernel.assign(tf.ones((6, 2)))
    models = [make_model(), keras.models.clone_model(wide)]
    models[1].set_weights(wide.get_weights())
    expected[1] = train(wide, optimizers()["SGD"], X, slice(None))
    for model, wanted in zip(models, expected):
        for variable in model.trainable_variables:
            variable._path = "same/name"
        train(model, optimizers()["SGD"], X, MINE, hvd.DistributedGradientTape)
        compare("same names", model, wanted)


def check_a_step_is_one_operation():
    if SIZE == 1:
        return
    model, optimizer = make_model(), optimizers()["SGD"]
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(model, x, y)
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    batch = tf.constant(X[0][MINE]), tf.constant(Y[0][MINE])
    # Until the plan of the steps before is given up and a new one is made.
    for _ in range(40):
        step(*batch)
    before = engine.counters()
    for _ in range(10):
        step(*batch)
    after = engine.counters()
    check.equal(
        "operations", after["operations"]["allreduce"] - before["operations"]["allreduce"], 10
    )
    check.equal("planned", after["planned_buckets"] - before["planned_buckets"] >= 9, True)


def check_synchronized_batch_normalization():
    def network(layer):
        keras.utils.set_random_seed(5)
        return keras.Sequential([keras.Input((6,)), keras.layers.Dense(4), layer])

    targets = np.sin(X[..., :4])

    def fit(model, rows, wrap):
        sgd = keras.optimizers.SGD(0.1)
        for x, y in zip(X, targets):
            with tf.GradientTape() as tape:
                loss = loss_of(model, x[rows], y[rows])
            gradients = wrap(tape).gradient(loss, model.trainable_variables)
            sgd.apply_gradients(zip(gradients, model.trainable_variables))
        return model

    expected = fit(network(keras.layers.BatchNormalization()), slice(None), lambda tape: tape)
    model = fit(network(hvd.SyncBatchNormalization()), MINE, hvd.DistributedGradientTape)
    compare("SyncBatchNormalization", model, expected, 1e-4)


def check_moments_far_from_zero():
    """Sums of squares would leave nothing of a variance beside a mean that is large."""
    random = np.random.default_rng(3)
    inputs = (random.standard_normal((32 * SIZE, 4)) + 10000).astype("float32")
    rows = slice(32 * RANK, 32 * (RANK + 1))
    layer = hvd.SyncBatchNormalization(momentum=0.0, epsilon=1e-6)
    normal = layer(inputs[rows], training=True).numpy()
    wide = inputs.astype("float64")
    expected = (wide - wide.mean(0)) / np.sqrt(wide.var(0) + 1e-6)
    check.close("normalised", normal, expected[rows], 5e-3)
    check.close("the variance", layer.moving_variance.numpy(), wide.var(0), 1e-3)

    # In a graph, with channels in the middle; a gradient that is that of the whole batch.
    images = tf.constant(random.standard_normal((2 * SIZE, 3, 5)).astype("float32") + 100)
    weights = tf.constant(random.standard_normal((2 * SIZE, 3, 5)).astype("float32"))
    mine = slice(2 * RANK, 2 * RANK + 2)

    def gradient_of(layer, x, by):
        @tf.function
        def of(x, by):
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_sum(layer(x, training=True) * by)
            return tape.gradient(loss, x)

        return of(x, by).numpy()

    plain = gradient_of(keras.layers.BatchNormalization(axis=1), images, weights)
    ours = gradient_of(hvd.SyncBatchNormalization(axis=1), images[mine], weights[mine])
    check.close("the gradient of images", ours, plain[mine], 2e-3)

    # The mask leaves the first rank nothing.
    layer = hvd.SyncBatchNormalization(momentum=0.0)
    mask = np.full((32,), RANK > 0 or SIZE == 1)
    layer(inputs[rows], training=True, mask=mask)
    seen = wide if SIZE == 1 else wide[32:]
    check.close("the masked mean", layer.moving_mean.numpy() / 10000, seen.mean(0) / 10000, 1e-6)
    check.close("the masked variance", layer.moving_variance.numpy(), seen.var(0), 1e-3)

    # It leaves no rank anything.
    both = keras.layers.BatchNormalization(), hvd.SyncBatchNormalization()
    for layer in both:
        layer(inputs[rows], training=True, mask=np.zeros(32, bool))
    for name in ("moving_mean", "moving_variance"):
        plain, ours = (getattr(layer, name).numpy() for layer in both)
        check.close(f"{name} of nothing", ours, plain, 1e-6)


def check_optimizers_of_both_kinds():
    expected = train(make_model(), optimizers()["momentum"], X, slice(None))
    model = make_model()
    train(model, hvd.DistributedOptimizer(optimizers()["momentum"]), X, MINE)
    compare("a Keras optimizer", model, expected)

    weights = tf.Variable([1.0, 2.0])
    old = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.5))
    old.minimize(lambda: (RANK + 1) * tf.reduce_sum(weights * weights), var_list=[weights])
    mean = (SIZE + 1) / 2
    check.close("an optimizer of tf.compat.v1", weights.numpy(), [1 - mean, 2 - 2 * mean], 1e-5)
    check.raises(TypeError, lambda: hvd.DistributedOptimizer(object()))


def check_elastic_states():
    model = make_model(seed=RANK)
    model.compile(optimizer=optimizers()["momentum"], loss="mse")
    state = hvd.elastic.TensorFlowKerasState(model, batch=RANK, epoch=2)
    state.sync()
    check.equal("attributes of rank 0", (state.batch, state.epoch), (0, 2))
    check.same_on_all_ranks("weights of rank 0", model.weights[0].numpy())
    saved = model.weights[0].numpy()
    state.commit()
    train(model, model.optimizer, X, MINE)
    state.batch = 5
    state.restore()
    check.equal("restored weights", model.weights[0].numpy(), saved)
    check.equal("restored attribute", state.batch, 0)
    variable = tf.Variable([float(RANK)])
    variables = hvd.elastic.TensorFlowState([variable], step=1)
    variables.sync()
    check.equal("variables of rank 0", variable.numpy(), [0.0])
    calls = []

    @hvd.elastic.run
    def training(state):
        calls.append(state.step)
        if len(calls) == 1 and SIZE > 1:
            state.step, variable_before = 7, variable.assign([3.0])
            tf.function(lambda: hvd.allreduce(tf.zeros(RANK + 1), name="differs"))()
            raise AssertionError(variable_before)
        return state.step

    check.equal("the result after a failure", training(variables), 1)
    check.equal("begun again", len(calls), 2 if SIZE > 1 else 1)
    check.equal("went back", variable.numpy(), [0.0])


def check_variables_made_after_the_optimizer_are_reduced():
    model = make_model(seed=1)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.05))
    train(model, optimizer, X, MINE, in_graph=False)
    later = tf.Variable(tf.ones(2))
    # Keras refuses variables that the optimizer was not built for.
    check.raises(ValueError, lambda: optimizer.apply_gradients([(tf.fill([2], 1.0), later)]))
    for wrap in (hvd.DistributedGradientTape, None):
        used = keras.optimizers.SGD(0.05)
        if wrap is None:
            used, wrap = hvd.DistributedOptimizer(used), lambda tape: tape
        model.layers[0].trainable = True
        train(model, used, X, MINE, wrap)
        for weight in model.weights:
            check.same_on_all_ranks(weight.path, weight.numpy())


def check_replicas_that_differ_are_an_error():
    os.environ["MPI_BRIDGE_CHECK_REPLICAS"] = "2"
    try:
        for in_graph in (True, False):
            model = make_model()
            train(model, optimizers()["SGD"], X, MINE, hvd.DistributedGradientTape, in_graph)
            if SIZE == 1:
                continue
            if RANK == SIZE - 1:
                model.weights[1].assign_add(tf.ones_like(model.weights[1]))
            text = check.raises(
                Exception,
                lambda: train(
                    model,  # noqa: B023
                    optimizers()["SGD"],
                    X,
                    MINE,
                    hvd.DistributedGradientTape,
                    in_graph,  # noqa: B023
                ),
            )
            layer_and_variable = "/".join(model.weights[1].path.split("/")[-2:])
            named = f'"{layer_and_variable}:0" (float32, (8,)) is not the same'
            check.equal(text, named in text, True)
            check.equal(text, f"another on [{SIZE - 1}]" in text, True)
    finally:
        del os.environ["MPI_BRIDGE_CHECK_REPLICAS"]


def check_copies_of_what_trains_are_refused():
    variable = tf.Variable(1.0)
    for value in ([variable], tf.train.Checkpoint(v=variable), {"deep": (tf.Module(),)}):
        text = check.raises(
            TypeError,
            lambda: hvd.elastic.TensorFlowState([variable], other=value),  # noqa: B023
        )
        check.equal(text, 'elastic state: "other"' in text, True)


if __name__ == "__main__":
    rows.run(globals())
