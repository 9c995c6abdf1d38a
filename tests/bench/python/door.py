# SPDX-License-Identifier: GPL-2.0-or-later
"""One rank of the benchmark of Python's ways to an allreduce: each call is timed by itself.

Prints a line of JSON for each size on rank 0. Started by `run`, under mpirun.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from typing import Any, Callable

_ONE_STEP = 50  # calls before the first one that counts: enough for a plan
_FEWEST = 20

Call = Callable[[], None]
# Returns what calls the allreduce of a vector of so many float32.
Door = Callable[[int], Call]


def engine() -> Door:
    """mpi_bridge.engine, with numpy."""
    import numpy as np

    import mpi_bridge

    mpi_bridge.init()

    def door(count: int) -> Call:
        vector = np.zeros(count, "f4")
        name = f"of {count}"
        return lambda: mpi_bridge.engine.call(
            mpi_bridge.engine.Kind.ALLREDUCE, vector, vector, name=name
        )

    return door


def _horovod_torch(allreduce: Callable[[Any, Any, str], object]) -> Door:
    import horovod.torch as hvd
    import torch

    torch.set_num_threads(1)
    hvd.init()

    def door(count: int) -> Call:
        tensor, name = torch.zeros(count), f"of {count}"
        return lambda: allreduce(hvd, tensor, name)

    return door


def horovod_torch() -> Door:
    """horovod.torch, in place and under a name."""
    return _horovod_torch(lambda hvd, tensor, name: hvd.allreduce_(tensor, name=name, op=hvd.Sum))


def horovod_torch_async() -> Door:
    """horovod.torch's two calls: the one that begins, and the one that waits."""
    return _horovod_torch(
        lambda hvd, tensor, name: hvd.synchronize(
            hvd.allreduce_async_(tensor, name=name, op=hvd.Sum)
        )
    )


def horovod_torch_grouped() -> Door:
    """horovod.torch, two tensors of half the length as one group."""
    import horovod.torch as hvd
    import torch

    torch.set_num_threads(1)
    hvd.init()

    def door(count: int) -> Call:
        tensors, name = [torch.zeros(count // 2) for _ in range(2)], f"of {count}"
        return lambda: hvd.grouped_allreduce_(tensors, name=name, op=hvd.Sum)

    return door


def horovod_tensorflow() -> Door:
    """horovod.tensorflow, eagerly and under a name."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import horovod.tensorflow as hvd
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    hvd.init()

    def door(count: int) -> Call:
        tensor, name = tf.zeros(count), f"of_{count}"
        return lambda: hvd.allreduce(tensor, name=name, op=hvd.Sum)

    return door


def _at_once(dist: Any, tensor: Any) -> None:
    dist.all_reduce(tensor)


def _through_a_future(dist: Any, tensor: Any) -> None:
    dist.all_reduce(tensor, async_op=True).get_future().wait()


Way = Callable[[Any, Any], None]


def _distributed(way: Way) -> Door:
    import torch
    import torch.distributed as dist

    def door(count: int) -> Call:
        tensor = torch.zeros(count)
        return lambda: way(dist, tensor)

    return door


def _over_mpi_bridge(backend: str, way: Way) -> Door:
    os.environ["MPI_BRIDGE_TORCH_BACKEND"] = backend
    import mpi_bridge.torch_distributed  # noqa: F401
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("mpi_bridge")
    return _distributed(way)


def _over_gloo(meeting: str, way: Way) -> Door:
    """torch.distributed over Gloo, whose ranks meet in a file."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=meeting,
        rank=int(os.environ["OMPI_COMM_WORLD_RANK"]),
        world_size=int(os.environ["OMPI_COMM_WORLD_SIZE"]),
    )
    return _distributed(way)


DOORS = {
    "engine": engine,
    "horovod.torch": horovod_torch,
    "horovod.torch async": horovod_torch_async,
    "horovod.tensorflow": horovod_tensorflow,
    "horovod.torch grouped": horovod_torch_grouped,
    "torch.distributed": lambda: _over_mpi_bridge("native", _at_once),
    "torch.distributed future": lambda: _over_mpi_bridge("native", _through_a_future),
    "torch.distributed python": lambda: _over_mpi_bridge("python", _at_once),
    "torch.distributed python future": lambda: _over_mpi_bridge("python", _through_a_future),
}
GLOO = {"gloo": _at_once, "gloo future": _through_a_future}


def timed(call: Call, calls: int) -> list[float]:
    """Return the seconds of each of so many calls."""
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return times


def main() -> None:
    """Measure one door."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("door", choices=[*DOORS, *GLOO])
    parser.add_argument("--sizes", required=True, help="bytes, with commas between them")
    parser.add_argument("--calls", type=int, default=1000, help="of each size up to 64 KiB [1000]")
    parser.add_argument("--meeting", default="", help="where Gloo's ranks meet: file://PATH")
    arguments = parser.parse_args()
    if arguments.door in GLOO:
        door = _over_gloo(arguments.meeting, GLOO[arguments.door])
    else:
        door = DOORS[arguments.door]()
    for size in map(int, arguments.sizes.split(",")):
        call = door(size // 4)
        calls = max(_FEWEST, min(arguments.calls, arguments.calls * 65536 // size))
        timed(call, min(_ONE_STEP, calls))
        times = timed(call, calls)
        if os.environ["OMPI_COMM_WORLD_RANK"] == "0":
            print(json.dumps({"bytes": size, "seconds": statistics.median(times)}), flush=True)
    if "torch.distributed" in sys.modules:
        leave()


def leave() -> None:
    """End the groups of torch: Gloo's threads may abort a process that exits with them."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
