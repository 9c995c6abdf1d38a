# SPDX-License-Identifier: Apache-2.0
"""Horovod's torch interface over libmpi_bridge."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(f"horovod.torch needs PyTorch: {error}") from error

from ..common.basics import *  # noqa: F403
from ..common.basics import __all__ as _lifecycle
from ..common.exceptions import HorovodInternalError
from ..common.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
from ..common.reduce_ops import Adasum, Average, Max, Min, Product, Sum
from . import elastic
from .compression import Compression
from .functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from .grouped import (
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter,
    grouped_reducescatter_async,
)
from .mpi_ops import (
    allgather,
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall,
    alltoall_async,
    barrier,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    join,
    poll,
    reducescatter,
    reducescatter_async,
    sparse_allreduce,
    sparse_allreduce_async,
    synchronize,
)
from .optimizer import DistributedOptimizer
from .placement import nccl_built as nccl_built
from .sync_batch_norm import SyncBatchNorm

__all__ = [
    *_lifecycle,
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "SyncBatchNorm",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "elastic",
    "global_process_set",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "join",
    "poll",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "sparse_allreduce",
    "sparse_allreduce_async",
    "synchronize",
]
