# SPDX-License-Identifier: Apache-2.0
"""Horovod's TensorFlow interface over libmpi_bridge, for TensorFlow 2.16 and later."""

from __future__ import annotations

try:
    import tensorflow as tf
except ImportError as error:
    raise ImportError(f"horovod.tensorflow needs TensorFlow: {error}") from error

if tuple(int(part) for part in tf.__version__.split(".")[:2]) < (2, 16):
    raise ImportError(
        f"horovod.tensorflow needs TensorFlow 2.16 or later; this is {tf.__version__}"
    )

from mpi_bridge.engine import barrier as _barrier

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
from . import elastic
from .compression import Compression
from .functions import (
    BroadcastGlobalVariablesHook,
    allgather_object,
    broadcast_,
    broadcast_global_variables,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from .gradient_tape import DistributedGradientTape, PartialDistributedGradientTape
from .mpi_ops import (
    allgather,
    alltoall,
    broadcast,
    grouped_allgather,
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    size_op,
)
from .optimizer import DistributedOptimizer
from .reductions import allreduce, grouped_allreduce, grouped_reducescatter, reducescatter
from .sync_batch_norm import SyncBatchNormalization


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Return after every rank of the set has entered it. Not for graphs."""
    _barrier(number_of(process_set))


__all__ = [
    *_lifecycle,
    "Adasum",
    "Average",
    "BroadcastGlobalVariablesHook",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "PartialDistributedGradientTape",
    "ProcessSet",
    "Product",
    "Sum",
    "SyncBatchNormalization",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "elastic",
    "global_process_set",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "join",
    "local_rank_op",
    "local_size_op",
    "process_set_included_op",
    "rank_op",
    "reducescatter",
    "remove_process_set",
    "size_op",
]
