# SPDX-License-Identifier: Apache-2.0
"""The collectives on numbers, arrays and eager tensors of any backend; the results are arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from ..common import reduce_ops
from ..common.process_sets import ProcessSet, global_process_set, number_of
from ..common.reduce_ops import Average
from . import operations
from .compression import Compression, NoneCompressor
from .operations import Reduction


def _array(value: Any) -> np.ndarray:
    if isinstance(value, keras.Variable):
        value = value.value
    return keras.ops.convert_to_numpy(value) if keras.ops.is_tensor(value) else np.asarray(value)


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: type[NoneCompressor] = Compression.none,
    process_set: ProcessSet = global_process_set,
) -> np.ndarray:
    """Return the value reduced over all ranks; None as op means Average."""
    array = _array(value)
    reduction = Reduction(
        reduce_ops.resolve(op, average), prescale_factor, postscale_factor, number_of(process_set)
    )
    travelling = array
    # numpy gives ml_dtypes' bfloat16 the kind "V", not that of a float.
    if compression.wire_dtype is not None and array.dtype.kind == "f":
        travelling = array.astype(_dtype(compression.wire_dtype))
    (reduced,) = operations.allreduce([travelling], reduction, name)
    return reduced.astype(array.dtype, copy=False)


def _dtype(name: str) -> np.dtype:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def allgather(
    value: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> np.ndarray:
    """Return all ranks' values joined along axis 0, whose length may differ between ranks."""
    return operations.allgather([_array(value)], number_of(process_set), name)[0]


def broadcast(
    value: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> np.ndarray:
    """Return the root's value; the others pass one of the same shape and type."""
    return operations.broadcast([_array(value)], root_rank, number_of(process_set), name)[0]


def reducescatter(
    value: Any,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> np.ndarray:
    """Reduce, and return this rank's rows of the result; low ranks get the remainder."""
    reduction = Reduction(
        reduce_ops.resolve(op), prescale_factor, postscale_factor, number_of(process_set)
    )
    return operations.reducescatter([_array(value)], reduction, name)[0]


def alltoall(
    value: Any,
    splits: Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send splits[r] rows to member r; with `splits` also return how many came from each."""
    parts = None if splits is None else _array(splits)
    rows, received = operations.alltoall(_array(value), parts, number_of(process_set), name)
    return rows if splits is None else (rows, received)
