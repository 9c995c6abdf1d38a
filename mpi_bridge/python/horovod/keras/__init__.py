# SPDX-License-Identifier: Apache-2.0
"""Horovod's Keras interface over libmpi_bridge, for Keras 3 on TensorFlow or PyTorch."""

from __future__ import annotations

from typing import Any

try:
    import keras
    import numpy as np
except ImportError as error:
    raise ImportError(f"horovod.keras needs Keras 3: {error}") from error

if int(keras.__version__.split(".")[0]) < 3:
    raise ImportError(
        f"horovod.keras with Keras {keras.__version__} is not supported yet; Keras 3 works"
    )

import mpi_bridge

from ..common import operations, reduce_ops
from ..common.basics import *  # noqa: F403
from ..common.basics import __all__ as _lifecycle
from ..common.exceptions import HorovodInternalError
from ..common.numpy_arrays import ARRAYS
from ..common.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
    require_global,
)
from ..common.reduce_ops import Adasum, Average, Max, Min, Product, Sum
from ..common.unsupported import UnsupportedNamespace, unsupported_function
from . import callbacks
from .compression import Compression
from .gradients import broadcast_variables as _broadcast_variables
from .optimizer import DistributedOptimizer

PartialDistributedOptimizer = unsupported_function(
    "PartialDistributedOptimizer", "use DistributedOptimizer"
)
elastic = UnsupportedNamespace("horovod.keras.elastic")


def _array(value: Any) -> np.ndarray:
    return keras.ops.convert_to_numpy(value) if keras.ops.is_tensor(value) else np.asarray(value)


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: type = Compression.none,
) -> np.ndarray:
    """Return a value (number, array or eager tensor) reduced over all ranks."""
    array = _array(value)
    travelling = array
    if compression.wire_dtype is not None and array.dtype.kind == "f":
        from ..common.numpy_arrays import wire_dtype

        travelling = array.astype(wire_dtype(compression.wire_dtype))
    reduced = operations.allreduce(
        ARRAYS, travelling, reduce_ops.resolve(op, average), prescale_factor, postscale_factor
    )
    return reduced.astype(array.dtype, copy=False)


def allgather(value: Any, name: str | None = None) -> np.ndarray:
    """Return all ranks' values joined along axis 0, whose length may differ between ranks."""
    return operations.allgather(ARRAYS, _array(value))[0]


def broadcast(value: Any, root_rank: int, name: str | None = None) -> np.ndarray:
    """Return the root's value; the others pass one of the same shape and type."""
    received = np.array(_array(value), order="C")
    mpi_bridge.broadcast(received, root_rank)
    return received


def reducescatter(
    value: Any,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> np.ndarray:
    """Reduce, and return this rank's rows of the result; low ranks get the remainder."""
    return operations.reducescatter(
        ARRAYS, _array(value), reduce_ops.resolve(op), prescale_factor, postscale_factor
    )


def alltoall(value: Any, splits: Any = None, name: str | None = None) -> Any:
    """Send splits[r] rows to rank r; with `splits` also return how many came from each rank."""
    result, received = operations.alltoall(
        ARRAYS, _array(value), None if splits is None else _array(splits).tolist()
    )
    return result if splits is None else (result, np.array(received, np.int32))


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None) -> Any:
    """Return the root's object on every rank."""
    return mpi_bridge.broadcast_object(obj, root_rank)


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """Return every rank's object, in the order of ranks."""
    return mpi_bridge.allgather_object(obj)


def barrier(process_set: Any = global_process_set) -> None:
    """Return after every rank has entered it."""
    require_global(process_set)
    mpi_bridge.barrier()


def broadcast_global_variables(root_rank: int, model: keras.Model | None = None) -> None:
    """Overwrite the weights and the optimizer's state of `model` with the root's.

    Keras 3 keeps no list of all variables, so the model has to be named; the
    BroadcastGlobalVariablesCallback learns it from model.fit().
    """
    if model is None:
        raise ValueError(
            "broadcast_global_variables needs model=: Keras 3 keeps no list of all variables"
        )
    _broadcast_variables("the model's weights", model.weights, root_rank)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        _broadcast_variables("the optimizer's state", optimizer.variables, root_rank)


def load_model(
    filepath: Any,
    custom_optimizers: Any = None,
    custom_objects: dict[str, Any] | None = None,
    compression: type = Compression.none,
) -> keras.Model:
    """Load a saved model and make its optimizer distributed, with the slots that were saved."""
    known = dict(custom_objects or {})
    known.update((optimizer.__name__, optimizer) for optimizer in custom_optimizers or ())
    model = keras.models.load_model(filepath, custom_objects=known)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        raise ValueError(f"{filepath} holds no optimizer: it was saved before model.compile()")
    model.optimizer = DistributedOptimizer(optimizer, compression=compression)
    model.train_function = None
    return model


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
    "load_model",
    "reducescatter",
    "remove_process_set",
]
