# SPDX-License-Identifier: GPL-2.0-or-later
"""One rank of the training benchmark in TensorFlow: the models and the output of train.py.

The steps are compiled by tf.function, which is how Keras runs them too. Started by `run`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Callable

BATCH = 32
FEATURES = 1856
LAYERS = 8
CLASSES = 10
SEED = 1
RATE = 1e-4
Step = Callable[[], None]


def rank_and_size() -> tuple[int, int]:
    """Return this process's number and their count, as Open MPI's launcher says."""
    return int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])


def _tell_where_the_others_are(ports: str) -> None:
    """TensorFlow reads this when it is imported."""
    workers = [f"127.0.0.1:{port}" for port in ports.split(",")]
    rank, size = rank_and_size()
    if len(workers) != size:
        sys.exit(f"train_tensorflow: {len(workers)} ports for {size} ranks")
    task = {"type": "worker", "index": rank}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})


class HorovodKeras:
    """The tape of our horovod.keras and horovod.tensorflow."""

    def __init__(self) -> None:
        import horovod.tensorflow as hvd
        import tensorflow as tf

        self._tf, self._hvd = tf, hvd
        hvd.init()

    def model_and_step(self, make: Callable) -> tuple[object, Step]:
        tf, hvd = self._tf, self._hvd
        model, images, labels = make(tf)
        optimizer = tf.keras.optimizers.SGD(RATE)
        optimizer.build(model.trainable_variables)
        hvd.broadcast_variables(model.variables, root_rank=0)

        @tf.function
        def step() -> None:
            with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
                loss = loss_of(tf, model, images, labels)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))

        return model, step

    def mean(self, value: float) -> float:
        return float(self._hvd.allreduce(self._tf.constant(value), name="mean"))


class MultiWorker:
    """TensorFlow's own MultiWorkerMirroredStrategy, whose optimizer adds up the gradients."""

    def __init__(self) -> None:
        import tensorflow as tf

        self._tf = tf
        options = tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.RING
        )
        self._strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
        self._mean = tf.function(self._mean_over_workers)

    def model_and_step(self, make: Callable) -> tuple[object, Step]:
        tf, strategy = self._tf, self._strategy
        with strategy.scope():
            model, images, labels = make(tf)
            optimizer = tf.keras.optimizers.SGD(RATE)
            optimizer.build(model.trainable_variables)

        def of_worker() -> None:
            with tf.GradientTape() as tape:
                loss = loss_of(tf, model, images, labels) / strategy.num_replicas_in_sync
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))

        @tf.function
        def step() -> None:
            strategy.run(of_worker)

        return model, step

    def _mean_over_workers(self, value: object) -> object:
        own = self._strategy.run(lambda given: given + 0.0, args=(value,))
        return self._strategy.reduce(self._tf.distribute.ReduceOp.MEAN, own, axis=None)

    def mean(self, value: float) -> float:
        return float(self._mean(self._tf.constant(value)))


def large_model(tf: object) -> tuple[object, object, object]:
    """Return a network with 110 MB of gradients, and a batch for it."""
    layers = tf.keras.layers
    hidden = [layers.Dense(FEATURES, activation="relu") for _ in range(LAYERS)]
    return _with_batch(tf, [*hidden, layers.Dense(CLASSES)], (FEATURES,))


def small_model(tf: object) -> tuple[object, object, object]:
    """Return the digits' network of train.py (0.15 MB of gradients), and a batch."""
    layers = tf.keras.layers
    parts = [
        layers.Conv2D(16, 3, padding="same", activation="relu"),
        layers.Conv2D(32, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(2),
        layers.Flatten(),
        layers.Dense(64, activation="relu"),
        layers.Dense(CLASSES),
    ]
    return _with_batch(tf, parts, (8, 8, 1))


def _with_batch(tf: object, layers: list, shape: tuple[int, ...]) -> tuple[object, object, object]:
    tf.keras.utils.set_random_seed(SEED)
    model = tf.keras.Sequential([tf.keras.Input(shape), *layers])
    images = tf.random.normal((BATCH, *shape))
    labels = tf.random.uniform((BATCH,), maxval=CLASSES, dtype=tf.int32)
    return model, images, labels


MODELS = {"large": large_model, "small": small_model}


def loss_of(tf: object, model: object, images: object, labels: object) -> object:
    """Return the mean loss of the batch."""
    logits = model(images, training=True)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def _step_alone(tf: object, make: Callable) -> Step:
    model, images, labels = make(tf)
    optimizer = tf.keras.optimizers.SGD(RATE)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(tf, model, images, labels)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    return step


def _timed(step: Step, library: HorovodKeras | MultiWorker, count: int) -> list[float]:
    """Return the seconds of each of `count` steps that all ranks begin together."""
    library.mean(0.0)
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return times


def measure(
    library: HorovodKeras | MultiWorker, tf: object, name: str, seconds: float, warm_up: int
) -> dict:
    """Time the model's steps alone and with the library, in turns of a few steps."""
    alone = _step_alone(tf, MODELS[name])
    model, together = library.model_and_step(MODELS[name])
    megabytes = 4 * sum(int(tf.size(each)) for each in model.trainable_variables) / 1e6
    first = _timed(alone, library, 4)[1:]  # the very first one is compiled
    _timed(together, library, warm_up)
    count = int(library.mean(max(3.0, min(100.0, seconds / 6 / min(first)))))
    compute, steps = [], []
    for _ in range(3):
        compute += _timed(alone, library, count)
        steps += _timed(together, library, count + 2)[2:]
    return {"model": name, "megabytes": megabytes, "compute": compute, "steps": steps}


def main() -> None:
    """Measure one library."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("candidate", choices=("keras_ours", "tf_multiworker"))
    parser.add_argument("--models", default="large,small")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each model")
    parser.add_argument("--warm-up", type=int, default=12, help="steps")
    parser.add_argument("--ports", default="", help="of the ranks, for tf_multiworker")
    arguments = parser.parse_args()
    rank, _ = rank_and_size()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if arguments.candidate == "tf_multiworker":
        _tell_where_the_others_are(arguments.ports)
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    # With one, a reduction in the graph would keep backward waiting.
    tf.config.threading.set_inter_op_parallelism_threads(2)
    library = HorovodKeras() if arguments.candidate == "keras_ours" else MultiWorker()
    for name in arguments.models.split(","):
        found = measure(library, tf, name, arguments.seconds, arguments.warm_up)
        if rank == 0:
            print(json.dumps(found), flush=True)
    library.mean(0.0)


if __name__ == "__main__":
    main()
