# SPDX-License-Identifier: GPL-2.0-or-later
"""Ranks that stand still, in the way that WAY names: CULPRIT holds up the others.

The comment of a line is the name of the place, by which hangs.bats finds it.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from multiprocessing import get_context
from pathlib import Path

marks = Path(os.environ["MARKS"])
rank = int(os.environ["SLURM_PROCID"])
is_culprit = rank == int(os.environ["CULPRIT"])


def mark() -> None:
    """Say that this rank is about to stand still."""
    (marks / f"there-{rank}").touch()


# Ways of one rank alone, without a call of any framework.


def sleep() -> None:
    time.sleep(3000)  # sleep


def hold(lock: threading.Lock, held: threading.Event) -> None:
    with lock:
        held.set()
        time.sleep(3000)


def lock() -> None:
    taken, held = threading.Lock(), threading.Event()
    threading.Thread(target=hold, args=(taken, held), daemon=True).start()
    held.wait()
    taken.acquire()  # lock


def fifo() -> None:
    os.mkfifo(marks / "fifo")
    (marks / "fifo").read_text()  # fifo


def pipe() -> None:
    child = subprocess.Popen(["sleep", "3000"], stdin=subprocess.PIPE)
    assert child.stdin is not None
    # Not with bufsize=0: whoever asks for the stacks ends such a write early.
    child.stdin.write(bytes(1 << 20))  # pipe


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def die() -> None:
    os._exit(1)


def worker() -> None:
    context = get_context("fork")
    batches = context.Queue()
    context.Process(target=die).start()
    batches.get()  # worker


def fail(results: "queue.Queue[int]") -> None:
    with contextlib.suppress(ZeroDivisionError):
        results.put(1 // 0)


def thread() -> None:
    results: queue.Queue[int] = queue.Queue()
    threading.Thread(target=fail, args=(results,)).start()
    results.get()  # thread


ALONE = {way.__name__: way for way in (sleep, lock, fifo, pipe, stop, worker, thread)}


def alone_or(meet: "object") -> None:
    """Stand still in a way of its own, or meet the other ranks."""
    mark()
    if is_culprit:
        ALONE[os.environ.get("ALONE", "sleep")]()
    meet()  # type: ignore[operator]


# Frameworks.


def in_torch(way: str, backend: str) -> None:
    import torch
    import torch.distributed as dist

    if backend == "mpi_bridge":
        import mpi_bridge.torch_distributed  # noqa: F401 - registers the backend
    dist.init_process_group(backend)
    numbers = torch.ones(4)
    first, second = dist.new_group(), dist.new_group()
    pair = dist.new_group([0, 1])
    dist.barrier()
    mark()
    if way == "missing":
        if not is_culprit:
            dist.all_reduce(numbers, group=first)  # all but one
        dist.all_reduce(numbers, group=second)  # missing
    elif way == "order":
        groups = (second, first) if is_culprit else (first, second)
        if is_culprit:
            dist.all_reduce(numbers, group=groups[0])  # order
        else:
            dist.all_reduce(numbers, group=groups[0])
    elif way == "subgroup":
        if is_culprit:
            dist.barrier(pair)  # subgroup
        dist.barrier()
    elif way == "receive":
        if is_culprit:
            dist.recv(numbers, src=0)  # receive
        dist.all_reduce(numbers)
    else:
        alone_or(lambda: dist.all_reduce(numbers))


def in_horovod(way: str) -> None:
    import horovod.torch as hvd
    import torch

    hvd.init()
    hvd.allreduce(torch.ones(4), name="first")
    mark()
    if way == "names" and is_culprit:
        hvd.allreduce(torch.ones(4), name="other")  # names
    alone_or(lambda: hvd.allreduce(torch.ones(4), name="gradient"))


def in_tensorflow_horovod() -> None:
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    alone_or(lambda: hvd.allreduce(tf.ones(4), name="gradient"))


def in_tensorflow() -> None:
    hosts = os.environ["AZ_BATCH_HOST_LIST"].split(",")
    workers = [f"{hosts[one // 2]}:{29400 + one}" for one in range(4)]
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
    )
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    def add_up() -> "tf.Tensor":
        return tf.distribute.get_replica_context().all_reduce("sum", tf.ones(4))

    strategy.run(add_up)
    alone_or(lambda: strategy.run(add_up))


def in_jax() -> None:
    import jax
    import jax.numpy as jnp
    from jax.experimental import multihost_utils

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize()
    multihost_utils.process_allgather(jnp.ones(4))
    alone_or(lambda: multihost_utils.process_allgather(jnp.ones(4)))


framework, _, way = os.environ["WAY"].partition("-")
if framework in ("gloo", "ours"):
    if way in ALONE:
        os.environ["ALONE"] = way
    in_torch(way, "gloo" if framework == "gloo" else "mpi_bridge")
elif framework == "horovod":
    in_horovod(way)
elif framework == "tfhorovod":
    in_tensorflow_horovod()
elif framework == "tensorflow":
    in_tensorflow()
else:
    in_jax()
