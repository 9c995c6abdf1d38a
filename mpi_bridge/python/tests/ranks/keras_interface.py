# SPDX-License-Identifier: Apache-2.0
"""The options, callbacks and functions of horovod.keras; KERAS_BACKEND chooses the backend."""

import os
import tempfile

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import check
import keras
import numpy as np
import rows

import horovod.keras as hvd
from horovod._keras import parts

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
BATCH, STEPS = 4, 6

random = np.random.default_rng(5)
X = random.normal(size=(STEPS * SIZE * BATCH, 6)).astype("f4")
Y = np.sin(X[:, :2])
MINE = np.concatenate([np.arange(BATCH) + (step * SIZE + RANK) * BATCH for step in range(STEPS)])


def make_model(seed=1):
    keras.utils.set_random_seed(seed)
    layers = [keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(2)]
    return keras.Sequential([keras.Input((6,)), *layers])


def sgd(**options):
    return keras.optimizers.SGD(0.05, momentum=0.9, **options)


def fit(model, optimizer, rows=MINE, batch_size=BATCH, epochs=2, callbacks=(), **options):
    model.compile(optimizer=optimizer, loss="mse", **options)
    return model.fit(
        X[rows],
        Y[rows],
        batch_size=batch_size,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=list(callbacks),
    )


def trained(optimizer, batch_size=SIZE * BATCH, **options):
    model = make_model()
    fit(model, optimizer, slice(None), batch_size, **options)
    return model


def array(variable):
    return keras.ops.convert_to_numpy(variable.value)


def compare(what, model, expected, tolerance=2e-5):
    for actual, wanted in zip(model.weights, expected.weights):
        check.close(f"{what}: {actual.path}", array(actual), array(wanted), tolerance)
        check.same_on_all_ranks(f"{what}: {actual.path}", array(actual))


def check_own_name():
    if keras.backend.backend() != "tensorflow":
        return
    import mpi_bridge.keras.callbacks as own_callbacks
    import mpi_bridge.tensorflow.keras as own

    import horovod.tensorflow.keras as alias

    check.equal("the same package", own is alias, True)
    check.equal("the same callbacks", own_callbacks is hvd.callbacks, True)


def check_options_of_the_optimizer():
    expected = trained(sgd())
    model = make_model()
    fit(model, hvd.DistributedOptimizer(sgd(), groups=2))
    compare("two groups", model, expected)
    model = make_model()
    fit(model, hvd.DistributedOptimizer(sgd(), groups=[model.trainable_variables[1:3]]))
    compare("a group of variables", model, expected)
    model = make_model()
    fit(model, hvd.DistributedOptimizer(keras.optimizers.SGD(0.05 / SIZE), op=hvd.Sum))
    compare("op=Sum", model, trained(keras.optimizers.SGD(0.05)))
    adam = trained(keras.optimizers.Adam(0.01))
    model = make_model()
    fit(model, hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)))
    compare("Adam", model, adam, 1e-4)
    for refused in (
        {"op": hvd.Max},
        {"op": hvd.Sum, "gradient_predivide_factor": 2.0},
        {"backward_passes_per_step": 0},
        {"groups": "all"},
    ):
        check.raises(ValueError, lambda options=refused: hvd.DistributedOptimizer(sgd(), **options))
    check.raises(NotImplementedError, lambda: hvd.DistributedOptimizer(sgd(), op=hvd.Adasum))
    check.raises(ValueError, lambda: hvd.DistributedOptimizer(hvd.DistributedOptimizer(sgd())))


def check_several_passes_to_a_step():
    # Two batches in each step add up to what one step of twice the batch averages.
    expected = trained(sgd(), 2 * SIZE * BATCH)
    rows = MINE.reshape(STEPS, BATCH)
    options = {"backward_passes_per_step": 2, "average_aggregated_gradients": True}
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(), **options)
    # A batch of all ranks in the reference is two of ours: the same samples, whatever their order.
    fit(model, optimizer, rows.reshape(-1))
    compare("averaged", model, expected)
    check.equal("iterations", int(array(optimizer.iterations)), 2 * STEPS)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "model.keras")
        model.save(path)
        plain = keras.models.load_model(path)
    names = [variable.name for variable in plain.optimizer.variables]
    check.equal("a plain optimizer's variables", len(names), len(sgd_variables(model)))
    half = make_model()
    optimizer = hvd.DistributedOptimizer(
        keras.optimizers.SGD(0.025), backward_passes_per_step=2, sparse_as_dense=True
    )
    fit(half, optimizer, rows.reshape(-1))
    compare("added up", half, trained(keras.optimizers.SGD(0.05), 2 * SIZE * BATCH))


def sgd_variables(model):
    optimizer = sgd()
    optimizer.build(model.trainable_variables)
    return optimizer.variables


def check_sparse_gradients():
    def embedding():
        keras.utils.set_random_seed(2)
        layer = keras.layers.Embedding(5, 2)
        return keras.Sequential([keras.Input((), dtype="int32"), layer])

    ids = np.arange(len(X)) % 5
    for options in ({}, {"sparse_as_dense": True}):
        model, expected = embedding(), embedding()
        for one, chosen, batch_size, optimizer in (
            (expected, slice(None), SIZE * BATCH, keras.optimizers.SGD(0.5)),
            (model, MINE, BATCH, hvd.DistributedOptimizer(keras.optimizers.SGD(0.5), **options)),
        ):
            one.compile(optimizer=optimizer, loss="mse")
            one.fit(ids[chosen], Y[chosen], batch_size=batch_size, shuffle=False, verbose=0)
        compare(f"sparse {options}", model, expected)


def check_gradients_travel_in_parts():
    usual, parts.PART_BYTES = parts.PART_BYTES, 64  # so that these small models have several
    check_options_of_the_optimizer()
    check_several_passes_to_a_step()
    check_sparse_gradients()
    check_scaled_losses()
    parts.PART_BYTES = usual


def check_some_layers_stay_local():
    model = make_model(seed=RANK)
    before = [array(weight) for weight in model.layers[0].weights]
    hvd.broadcast_global_variables(0, model=model)
    for weight, value in zip(model.layers[0].weights, before):
        weight.assign(value)
    optimizer = hvd.PartialDistributedOptimizer(sgd(), local_layers=[model.layers[0]])
    fit(model, optimizer)
    for weight in model.layers[1].weights:
        check.same_on_all_ranks("a shared layer", array(weight))
    if SIZE > 1:
        kernels = hvd.allgather(array(model.layers[0].weights[0])[None])
        check.equal("local layers differ", np.array_equal(kernels[0], kernels[1]), False)


def check_layers_that_are_unfrozen_later_stay_local():
    if SIZE == 1:
        return
    model = make_model()
    model.layers[0].trainable = False
    optimizer = hvd.PartialDistributedOptimizer(sgd(), local_layers=[model.layers[0]])
    model.layers[0].trainable = True
    fit(model, optimizer)
    kernels = hvd.allgather(array(model.layers[0].weights[0])[None])
    check.equal("local layers differ", np.array_equal(kernels[0], kernels[1]), False)


def check_local_variables_with_several_passes():
    alone = hvd.add_process_set([0]) if SIZE > 1 else hvd.global_process_set
    model = make_model()
    optimizer = hvd.PartialDistributedOptimizer(
        sgd(), local_layers=[model.layers[0]], backward_passes_per_step=2, process_set=alone
    )
    before = array(model.weights[0])
    if RANK == 0:
        fit(model, optimizer, epochs=1)
        check.equal("it trains", np.array_equal(array(model.weights[0]), before), False)
    if SIZE > 1:
        hvd.remove_process_set(alone)


def check_local_variables_are_not_broadcast():
    if SIZE == 1:
        return
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback
    layer_of = lambda model: model.layers[0]  # noqa: E731 - it names the local layer
    for chosen in (lambda model: layer_of(model).weights, lambda model: layer_of(model).weights[0]):
        for options in ({}, {"backward_passes_per_step": 2}):
            model = make_model(seed=RANK)
            for weight in model.weights:
                weight.assign(array(weight) + RANK)
            local = chosen(model)
            optimizer = hvd.PartialDistributedOptimizer(
                keras.optimizers.Adam(0.01), local_layers=[layer_of(model)], **options
            )
            fit(model, optimizer, rows=MINE[:BATCH], epochs=1, callbacks=[callback(0, "", local)])
            kept = local if isinstance(local, list) else [local]
            for variable in model.weights:
                values = hvd.allgather(array(variable)[None])
                is_local = any(variable is one for one in kept)
                check.equal(variable.path, np.array_equal(values[0], values[-1]), not is_local)
            slots = optimizer.variables[2:]  # after the number of iterations and the learning rate
            differ = [
                not np.array_equal(values[0], values[-1])
                for values in (hvd.allgather(array(slot)[None]) for slot in slots)
            ]
            expected = len(kept) * (1 if options else 2)
            check.equal(f"slots of local variables {options}", sum(differ), expected)
    check.raises(ValueError, lambda: callback(0, local_variables=["kernel"]))


def check_a_copy_by_its_configuration_reduces():
    expected = trained(sgd())
    original = hvd.DistributedOptimizer(sgd())
    config = original.get_config()
    for copied in (original.from_config(config), type(original).from_config(config)):
        check.equal("its configuration", str(copied.get_config()), str(config))
        model = make_model()
        fit(model, copied)
        compare("a copy", model, expected)


@keras.saving.register_keras_serializable("tests")
class OwnSGD(keras.optimizers.SGD):
    pass


class UnknownSGD(keras.optimizers.SGD):
    pass


def check_classes_of_the_script_load():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "model.keras")
        model = make_model()
        fit(model, hvd.DistributedOptimizer(OwnSGD(0.05)), epochs=1)
        model.save(path)
        check.equal("alone", type(keras.models.load_model(path).optimizer) is OwnSGD, True)
        check.equal("here", isinstance(hvd.load_model(path).optimizer, OwnSGD), True)
        model = make_model()
        fit(model, hvd.DistributedOptimizer(UnknownSGD(0.05)), epochs=1)
        model.save(path)
        distributed = type(model.optimizer)
        for made in (UnknownSGD, distributed):
            loaded = hvd.load_model(path, custom_objects={"UnknownSGD": made})
            check.equal(f"{made}", isinstance(loaded.optimizer, UnknownSGD), True)
        check.equal("distributed by itself", type(loaded.optimizer) is distributed, True)


def check_rank_0_alone_loads_a_model():
    # Without other models in the process, as in a script that resumes, the layers have these names.
    layers = [keras.layers.Dense(8, name="resumed_1"), keras.layers.Dense(2, name="resumed_2")]
    model = keras.Sequential([keras.Input((6,)), *layers], name="resumed")
    model.compile(optimizer=hvd.DistributedOptimizer(sgd()), loss="mse")
    if RANK == 0:
        model.optimizer.build(model.trainable_variables)
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "model.keras")
            model.save(path)
            model = hvd.load_model(path)
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    fit(model, model.optimizer, callbacks=[callback])
    for variable in (*model.weights, *model.optimizer.variables):
        check.same_on_all_ranks("what rank 0 has loaded", array(variable))


def check_layers_that_are_unfrozen():
    model = make_model()
    model.layers[0].trainable = False
    optimizer = hvd.DistributedOptimizer(sgd())
    fit(model, optimizer)
    model.layers[0].trainable = True
    # An optimizer that was built without these variables is refused by Keras; a new one trains.
    check.raises(ValueError, lambda: fit(model, optimizer))
    model = make_model()
    model.layers[0].trainable = False
    fit(model, hvd.DistributedOptimizer(sgd()))
    before = array(model.layers[0].weights[0])
    model.layers[0].trainable = True
    fit(model, hvd.DistributedOptimizer(sgd()))
    for weight in model.weights:
        check.same_on_all_ranks(weight.path, array(weight))
    check.equal("it is trained", np.array_equal(before, array(model.layers[0].weights[0])), False)


def check_a_state_keeps_the_optimizer_of_a_model_compiled_again():
    model = make_model()
    model.compile(optimizer=hvd.DistributedOptimizer(sgd()), loss="mse")
    state = hvd.elastic.KerasState(model, epoch=0)
    fit(model, hvd.DistributedOptimizer(sgd()), epochs=1)
    check.equal("the same", state.optimizer is model.optimizer, True)
    state.save()
    kept = int(array(model.optimizer.iterations))
    fit(model, model.optimizer, epochs=1)
    state.restore()
    check.equal("iterations", int(array(model.optimizer.iterations)), kept)
    given = sgd()
    check.equal("given", hvd.elastic.KerasState(model, given).optimizer is given, True)


def check_copies_of_what_trains_are_refused():
    model = make_model()
    model.compile(optimizer=hvd.DistributedOptimizer(sgd()), loss="mse")
    plateau = keras.callbacks.ReduceLROnPlateau()
    for value in (plateau, [plateau], model.weights, {"layer": model.layers[0]}, model.optimizer):
        text = check.raises(TypeError, lambda: hvd.elastic.KerasState(model, other=value))  # noqa: B023
        check.equal(text, 'elastic state: "other"' in text, True)
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    hvd.elastic.KerasState(model, schedule=schedule, weights=model.get_weights())


class Drift(keras.callbacks.Callback):
    """Changes the first weight of the last rank after the batch of this number."""

    def __init__(self, batch):
        super().__init__()
        self._batch = batch

    def on_train_batch_end(self, batch, logs=None):
        if batch == self._batch and RANK == SIZE - 1:
            if keras.backend.backend() == "jax":
                self.model.jax_state_sync()
            weight = self.model.trainable_variables[0]
            weight.assign(weight + 1)


def check_replicas_that_differ_are_an_error():
    os.environ["MPI_BRIDGE_CHECK_REPLICAS"] = "2"
    try:
        model = make_model(seed=RANK)
        fit(
            model,
            hvd.DistributedOptimizer(sgd()),
            callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)],
        )
        if SIZE == 1:
            return
        for optimizer in (
            hvd.DistributedOptimizer(sgd()),
            hvd.DistributedOptimizer(keras.optimizers.LossScaleOptimizer(sgd())),
        ):
            model = make_model()
            text = check.raises(
                Exception,
                lambda: fit(model, optimizer, callbacks=[Drift(2)]),  # noqa: B023
            )
            first = "/".join(model.trainable_variables[0].path.split("/")[-2:])
            check.equal(text, f'"{first}" (float32, (6, 8)) is not the same' in text, True)
            check.equal(text, f"another on [{SIZE - 1}]" in text, True)
            check.equal(text, "after step 4" in text, True)
        model = make_model(seed=RANK)
        hvd.broadcast_global_variables(0, model=model)
        partial = hvd.PartialDistributedOptimizer(sgd(), local_layers=[model.layers[0]])
        fit(model, partial)  # local layers differ
    finally:
        del os.environ["MPI_BRIDGE_CHECK_REPLICAS"]


def check_scaled_losses():
    wanted = make_model()
    fit(wanted, sgd(), slice(None), SIZE * BATCH)
    for what, optimizer in (
        ("inside", hvd.DistributedOptimizer(keras.optimizers.LossScaleOptimizer(sgd()))),
        ("outside", keras.optimizers.LossScaleOptimizer(hvd.DistributedOptimizer(sgd()))),
    ):
        model = make_model()
        fit(model, optimizer)
        compare(f"loss scaling {what}", model, wanted)
        scales = [array(variable) for variable in optimizer.variables if "scale" in variable.name]
        check.same_on_all_ranks("scales", np.array(scales))
    # A gradient that overflows on one rank makes all ranks leave the step out.
    model = make_model()
    broken = np.where(RANK == SIZE - 1, np.float32("inf"), X[:BATCH])
    before = array(model.weights[0])
    optimizer = keras.optimizers.LossScaleOptimizer(hvd.DistributedOptimizer(sgd()))
    model.compile(optimizer=optimizer, loss="mse")
    model.fit(broken, Y[:BATCH], batch_size=BATCH, verbose=0)
    check.equal("the step is left out", array(model.weights[0]), before)


class Rates(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_begin(self, batch, logs=None):
        self.seen.append(float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)))


def check_a_model_compiled_twice_with_scaled_losses():
    optimizer = hvd.DistributedOptimizer(sgd())
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = make_model(seed=RANK)
        for _ in range(2):  # each wraps the optimizer anew
            broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
            fit(model, optimizer, callbacks=[broadcast])
            for weight in model.weights:
                check.same_on_all_ranks(weight.path, array(weight))
    finally:
        keras.config.set_dtype_policy("float32")
    gradients = [keras.ops.zeros(weight.shape) for weight in model.trainable_weights]
    check.raises(RuntimeError, lambda: optimizer.apply(gradients, model.trainable_weights))


def check_learning_rates():
    def rates_with(callback, epochs):
        rates = Rates()
        history = fit(
            make_model(),
            hvd.DistributedOptimizer(sgd()),
            epochs=epochs,
            callbacks=[callback, rates],
        )
        return rates.seen, history.history["lr"]

    warmup = hvd.callbacks.LearningRateWarmupCallback(0.4, warmup_epochs=2, verbose=1)
    seen, reported = rates_with(warmup, 3)
    expected = [
        0.4 / SIZE * (((step + 1) / STEPS) * (SIZE - 1) / 2 + 1) for step in range(2 * STEPS)
    ]
    check.close("warm-up", seen, expected + [0.4] * STEPS, 1e-6)
    check.close("reported", reported, [expected[STEPS - 1], 0.4, 0.4], 1e-6)
    schedule = hvd.callbacks.LearningRateScheduleCallback
    seen, _ = rates_with(schedule(0.1, 0.5, start_epoch=1), 3)
    # The exponent counts from the epoch in which the schedule begins.
    check.close("a base", seen, [0.05] * STEPS + [0.1] * STEPS + [0.05] * STEPS, 1e-6)
    function = schedule(0.1, lambda epoch: 1 + epoch, end_epoch=1, staircase=False)
    seen, _ = rates_with(function, 1)
    check.close("a function", seen, [0.1 * (1 + step / STEPS) for step in range(STEPS)], 1e-6)


def check_momentum_correction():
    # One weight, one gradient g a step: v = m * v * new / old - new * g, w += v.
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.weights[0].assign([[0.0]])
    callback = hvd.callbacks.LearningRateScheduleCallback(
        0.1, lambda epoch: 1 + epoch, staircase=True
    )
    model.compile(optimizer=hvd.DistributedOptimizer(sgd()), loss=lambda y, p: p)
    ones = np.ones((2, 1), "f4")
    model.fit(ones, ones, batch_size=1, epochs=2, verbose=0, callbacks=[callback])
    weight = velocity = 0.0
    old = 0.1
    for epoch in range(2):
        for batch in range(2):
            new = 0.1 * (1 + epoch)
            velocity = 0.9 * velocity * (new / old if batch == 0 else 1) - new
            old, weight = new, weight + velocity
    check.close("momentum correction", array(model.weights[0]), [[weight]], 1e-5)


def check_best_model():
    with tempfile.TemporaryDirectory() as directory:
        checkpoint = hvd.callbacks.BestModelCheckpoint(monitor="loss")
        model = make_model()
        check.raises(ValueError, lambda: fit(make_model(), sgd(), callbacks=[checkpoint]))
        checkpoint.filepath = os.path.join(directory, "best.keras")
        average = hvd.callbacks.MetricAverageCallback()
        fit(model, hvd.DistributedOptimizer(sgd()), callbacks=[average, checkpoint])
        check.equal("rank 0 alone writes", os.path.exists(checkpoint.filepath), RANK == 0)


def check_values_of_all_kinds():
    tensor = keras.ops.convert_to_tensor([RANK + 1.0, 2.0])
    total = SIZE * (SIZE + 1) / 2
    check.close("allreduce", hvd.allreduce(tensor, op=hvd.Sum, name="v"), [total, 2 * SIZE], 1e-6)
    scaled = hvd.allreduce(RANK + 1, average=False, prescale_factor=2.0)
    check.equal("a scaled number", scaled, 2 * total)
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        check.close("compressed", hvd.allreduce(tensor, compression=compression)[1], 2, 1e-3)
    check.equal("allgather", hvd.allgather([RANK] * (RANK + 1)).shape, (total,))
    rows = hvd.reducescatter(np.ones((SIZE, 2)), op=hvd.Sum)
    check.equal("reducescatter", rows, np.full((1, 2), SIZE))
    check.equal("alltoall", hvd.alltoall(np.arange(SIZE)), np.full(SIZE, RANK))
    check.equal("broadcast", hvd.broadcast(np.array([RANK]), SIZE - 1), [SIZE - 1])
    check.equal("object", hvd.broadcast_object([RANK], SIZE - 1), [SIZE - 1])
    check.equal("join", hvd.join() in range(SIZE), True)
    hvd.barrier()
    check.raises(ValueError, lambda: hvd.broadcast_global_variables(0))


def check_elastic_state():
    model = make_model(seed=RANK)
    model.compile(optimizer=hvd.DistributedOptimizer(sgd()), loss="mse")
    state = hvd.elastic.KerasState(model, batch=0, epoch=0)
    state.sync()
    callbacks = [
        hvd.elastic.UpdateBatchStateCallback(state),
        hvd.elastic.UpdateEpochStateCallback(state),
        hvd.elastic.CommitStateCallback(state, batches_per_commit=4),
    ]
    options = {"batch_size": BATCH, "shuffle": False, "verbose": 0, "callbacks": callbacks}
    with tempfile.TemporaryDirectory() as directory:
        directory = hvd.broadcast_object(directory)
        os.environ["BATCHAI_ELASTIC_DIRECTORY"] = directory
        model.fit(X[MINE], Y[MINE], epochs=2, **options)
        check.equal("epochs", (state.epoch, state.batch), (2, 0))
        trained_weights = [array(weight) for weight in model.weights]
        later = hvd.elastic.KerasState(make_model(seed=9), sgd(), batch=1, epoch=0)
        check.equal("a commit to load", RANK != 0 or later.load(), True)
        later.sync()
        hvd.barrier()
        del os.environ["BATCHAI_ELASTIC_DIRECTORY"]
    check.equal("the epoch of the commit", later.epoch, 2)
    for weight, value in zip(later.model.weights, trained_weights):
        check.equal("weights of the commit", array(weight), value)
    check.equal("the optimizer's", array(later.optimizer.variables[0]), 2 * STEPS)
    for weight in model.weights:
        weight.assign(array(weight) + 1)
    state.restore()
    check.equal("restored", array(model.weights[0]), trained_weights[0])


def check_process_sets():
    if SIZE < 3:
        return
    low, high = hvd.add_process_set(range(SIZE - 1)), hvd.add_process_set([SIZE - 1])
    own = low if RANK < SIZE - 1 else high
    model = make_model(seed=RANK)
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(own.ranks[0], process_set=own)
    fit(model, hvd.DistributedOptimizer(sgd(), process_set=own), callbacks=[callback])
    kernels = hvd.allgather(array(model.weights[0])[None])
    check.equal("within the set", kernels[0], kernels[1])
    check.equal("outside", np.array_equal(kernels[0], kernels[-1]), False)
    hvd.remove_process_set(low)
    hvd.remove_process_set(high)


rows.run(globals())
