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
from ..common.unsupported import UnsupportedNamespace, unsupported_function
from .compression import Compression
from .functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from .mpi_ops import (
    allgather,
    allreduce,
    allreduce_,
    alltoall,
    barrier,
    broadcast,
    broadcast_,
    grouped_allreduce,
    reducescatter,
)
from .optimizer import DistributedOptimizer

_BLOCKING = "use the blocking form"
allreduce_async = unsupported_function("allreduce_async", _BLOCKING)
allreduce_async_ = unsupported_function("allreduce_async_", _BLOCKING)
allgather_async = unsupported_function("allgather_async", _BLOCKING)
broadcast_async = unsupported_function("broadcast_async", _BLOCKING)
broadcast_async_ = unsupported_function("broadcast_async_", _BLOCKING)
alltoall_async = unsupported_function("alltoall_async", _BLOCKING)
reducescatter_async = unsupported_function("reducescatter_async", _BLOCKING)
grouped_allreduce_ = unsupported_function("grouped_allreduce_", "use grouped_allreduce")
grouped_allreduce_async = unsupported_function("grouped_allreduce_async", _BLOCKING)
grouped_allreduce_async_ = unsupported_function("grouped_allreduce_async_", _BLOCKING)
grouped_allgather = unsupported_function("grouped_allgather", "use allgather")
grouped_allgather_async = unsupported_function("grouped_allgather_async", _BLOCKING)
grouped_reducescatter = unsupported_function("grouped_reducescatter", "use reducescatter")
grouped_reducescatter_async = unsupported_function("grouped_reducescatter_async", _BLOCKING)
sparse_allreduce_async = unsupported_function("sparse_allreduce_async", "use allreduce, dense")
poll = unsupported_function("poll", _BLOCKING)
synchronize = unsupported_function("synchronize", _BLOCKING)
join = unsupported_function("join", "give every rank the same number of batches")
SyncBatchNorm = unsupported_function("SyncBatchNorm", "use BatchNorm, whose statistics stay local")
elastic = UnsupportedNamespace("horovod.torch.elastic")

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
    "allgather_object",
    "allreduce",
    "allreduce_",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "elastic",
    "global_process_set",
    "grouped_allreduce",
    "join",
    "reducescatter",
    "remove_process_set",
]
