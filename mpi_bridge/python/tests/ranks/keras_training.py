# SPDX-License-Identifier: Apache-2.0
"""N ranks with batch B train like one process with batch N*B (horovod.keras, model.fit).

Breaks when a gradient is not averaged or belongs to another variable, when the broadcast leaves
ranks apart, or when a saved model does not load. KERAS_BACKEND chooses tensorflow or torch.
"""

import os
import tempfile

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import check
import keras
import numpy as np

import horovod.keras as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
BATCH, STEPS = 4, 6
ON_TENSORFLOW = keras.backend.backend() == "tensorflow"

random = np.random.default_rng(5)
X = random.normal(size=(STEPS * SIZE * BATCH, 6)).astype("f4")
Y = np.sin(X[:, :2])
MINE = np.concatenate([np.arange(BATCH) + (step * SIZE + RANK) * BATCH for step in range(STEPS)])


def make_model(seed=1):
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8, activation="tanh"),
            keras.layers.BatchNormalization(trainable=False),
            keras.layers.Dense(2),
        ]
    )


def sgd():
    return keras.optimizers.SGD(0.05, momentum=0.9)


def rmsprop():
    schedule = keras.optimizers.schedules.InverseTimeDecay(0.01, 1, 1e-3)
    return keras.optimizers.RMSprop(schedule)


def fit(model, optimizer, chosen, batch_size, callbacks=(), **compile_options):
    model.compile(optimizer=optimizer, loss=keras.losses.MeanSquaredError(), **compile_options)
    return model.fit(
        X[chosen],
        Y[chosen],
        batch_size=batch_size,
        epochs=2,
        shuffle=False,
        verbose=0,
        callbacks=list(callbacks),
    )


def reference(optimizer):
    model = make_model()
    fit(model, optimizer, slice(None), SIZE * BATCH)
    return model


def compare(what, model, expected, tolerance):
    for actual, wanted in zip(model.weights, expected.weights):
        array = keras.ops.convert_to_numpy(actual.value)
        check.close(
            f"{what}: {actual.path}", array, keras.ops.convert_to_numpy(wanted.value), tolerance
        )
        check.same_on_all_ranks(f"{what}: {actual.path}", array)


def trains_like_one_process():
    for make_optimizer in (sgd, rmsprop):
        expected = reference(make_optimizer())
        for options in ({"jit_compile": False}, {"run_eagerly": True}, {}):
            callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
            model = make_model()
            optimizer = hvd.DistributedOptimizer(make_optimizer())
            fit(model, optimizer, MINE, BATCH, [callback], **options)
            compare(f"{make_optimizer.__name__} {options}", model, expected, 2e-5)


def other_choices():
    expected = reference(sgd())
    for options, tolerance in (
        ({"gradient_predivide_factor": 2.0}, 2e-5),
        ({"compression": hvd.Compression.fp16}, 5e-3),
        ({"compression": hvd.Compression.bf16}, 5e-2),
    ):
        model = make_model()
        optimizer = hvd.DistributedOptimizer(sgd(), **options)
        fit(model, optimizer, MINE, BATCH, jit_compile=False)
        compare(f"{options}", model, expected, tolerance)


def callback_brings_ranks_together():
    model = make_model(seed=RANK)
    optimizer = hvd.DistributedOptimizer(sgd())
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(SIZE - 1)
    average = hvd.callbacks.MetricAverageCallback()
    history = fit(model, optimizer, MINE, BATCH, [callback, average])
    for variable in (*model.weights, *optimizer.variables):
        check.same_on_all_ranks(variable.path, keras.ops.convert_to_numpy(variable.value))
    check.same_on_all_ranks("the averaged loss", np.array(history.history["loss"]))


def compiled_step_is_refused():
    if not ON_TENSORFLOW or SIZE == 1:  # alone there is nothing to reduce
        return
    model, optimizer = make_model(), hvd.DistributedOptimizer(sgd())
    text = check.raises(
        NotImplementedError, lambda: fit(model, optimizer, MINE, BATCH, jit_compile=True)
    )
    check.equal("the way out is named", "jit_compile=False" in text, True)


def saved_model_loads_with_and_without_us():
    model, optimizer = make_model(), hvd.DistributedOptimizer(sgd())
    fit(model, optimizer, MINE, BATCH, jit_compile=False)
    with tempfile.TemporaryDirectory() as directory:
        # In this order: saving as HDF5 makes Keras forget the optimizer in its own format.
        for name in ("model.keras", "model.h5"):
            path = os.path.join(directory, name)
            model.save(path)
            plain = keras.models.load_model(path)
            check.equal(f"class in {name}", type(plain.optimizer) is type(sgd()), True)
            restored = hvd.load_model(path)
            if name.endswith(".keras"):  # Keras 3 itself restores no slots from HDF5
                check.equal(
                    f"slots in {name}",
                    keras.ops.convert_to_numpy(restored.optimizer.variables[-1].value),
                    keras.ops.convert_to_numpy(optimizer.variables[-1].value),
                )
            restored.fit(
                X[MINE],
                Y[MINE],
                batch_size=BATCH,
                shuffle=False,
                verbose=0,
                callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)],
            )
            for variable in restored.weights:
                check.same_on_all_ranks(f"after {name}", keras.ops.convert_to_numpy(variable.value))


def values():
    check.equal("allreduce", hvd.allreduce(np.float32(RANK)), np.float32((SIZE - 1) / 2))
    check.equal(
        "allgather",
        hvd.allgather(np.full(RANK + 1, RANK)),
        np.concatenate([np.full(r + 1, r) for r in range(SIZE)]),
    )
    check.equal(
        "broadcast", hvd.broadcast(keras.ops.convert_to_tensor([RANK]), SIZE - 1), [SIZE - 1]
    )
    model = make_model(seed=RANK)
    hvd.broadcast_global_variables(0, model=model)
    check.same_on_all_ranks("weights", keras.ops.convert_to_numpy(model.weights[0].value))


trains_like_one_process()
other_choices()
callback_brings_ranks_together()
compiled_step_is_refused()
saved_model_loads_with_and_without_us()
values()
check.passed()
