# SPDX-License-Identifier: Apache-2.0
"""Horovod's Keras interface over libmpi_bridge, for Keras 3 on TensorFlow, PyTorch or JAX."""

from __future__ import annotations

try:
    import keras
except ImportError as error:
    raise ImportError(f"horovod.keras needs Keras 3: {error}") from error

if int(keras.__version__.split(".")[0]) < 3:
    raise ImportError(f"horovod.keras needs Keras 3; this is Keras {keras.__version__}")

from mpi_bridge.engine import barrier as _barrier
from mpi_bridge.engine import join

from .._keras.compression import Compression
from .._keras.interface import (
    DistributedOptimizer,
    PartialDistributedOptimizer,
    broadcast_global_variables,
    load_model,
)
from .._keras.objects import allgather_object, broadcast_object
from .._keras.values import allgather, allreduce, alltoall, broadcast, reducescatter
from ..common.basics import *  # noqa: F403
from ..common.basics import __all__ as _lifecycle
from ..common.exceptions import HorovodInternalError
from ..common.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    number_of,
    remove_process_set,
)
from ..common.reduce_ops import Adasum, Average, Max, Min, Product, Sum
from . import callbacks, elastic


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Return after every rank of the set has entered it."""
    _barrier(number_of(process_set))


__all__ = [
    *_lifecycle,
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "PartialDistributedOptimizer",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "callbacks",
    "elastic",
    "global_process_set",
    "join",
    "load_model",
    "reducescatter",
    "remove_process_set",
]
