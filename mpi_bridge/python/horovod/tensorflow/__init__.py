# SPDX-License-Identifier: Apache-2.0
"""Only horovod.tensorflow.keras is here yet; everything else of this module says so."""

from __future__ import annotations

from typing import NoReturn

from ..common.basics import *  # noqa: F403
from ..common.basics import __all__ as _lifecycle
from ..common.exceptions import HorovodInternalError
from ..common.unsupported import not_supported
from ..keras import (
    Adasum,
    Average,
    Compression,
    DistributedOptimizer,
    Max,
    Min,
    Product,
    Sum,
    allgather_object,
    barrier,
    broadcast_object,
)

_MISSING = (
    "DistributedGradientTape",
    "PartialDistributedGradientTape",
    "SyncBatchNormalization",
    "BroadcastGlobalVariablesHook",
    "allgather",
    "allreduce",
    "alltoall",
    "broadcast",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_variables",
    "grouped_allreduce",
    "join",
    "reducescatter",
    "elastic",
)


def __getattr__(name: str) -> NoReturn:
    if name in _MISSING:
        raise not_supported(
            f"horovod.tensorflow.{name}",
            "use horovod.keras (or horovod.tensorflow.keras) with model.fit(), or horovod.torch",
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    *_lifecycle,
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather_object",
    "barrier",
    "broadcast_object",
]
