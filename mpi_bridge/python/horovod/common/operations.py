# SPDX-License-Identifier: Apache-2.0
"""The collectives on whole arrays of any framework: shapes, uneven parts and scaling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mpi_bridge
from mpi_bridge import InvalidArgumentError, rank, size

from . import reduce_ops
from .agreement import exchange_rows
from .arrays import Arrays
from .reduce_ops import ReduceOp


def allreduce(
    arrays: Arrays, array: Any, op: ReduceOp, prescale: float = 1.0, postscale: float = 1.0
) -> Any:
    """Return a new array: postscale * op over all ranks of (prescale * array)."""
    source = arrays.host(array)
    if prescale != 1.0:
        source = arrays.scaled(source, prescale)
    result = arrays.empty(arrays.shape(source), source)
    mpi_bridge.allreduce(source, result, reduce_ops.native(op))
    return arrays.scaled(result, postscale) if postscale != 1.0 else result


def _rows(arrays: Arrays, array: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the array in host memory with at least one axis, and the shape of one row."""
    source = arrays.host(array)
    shape = arrays.shape(source)
    if not shape:
        return arrays.reshape(source, (1,)), ()
    return source, shape[1:]


def _row_description(arrays: Arrays, source: Any, row_shape: Sequence[int]) -> str:
    return f"shape {tuple(row_shape)} and type {arrays.dtype_name(source)}"


def allgather(arrays: Arrays, array: Any) -> tuple[Any, list[int]]:
    """Return all ranks' rows (axis 0) one after the other, and how many each rank had."""
    source, row_shape = _rows(arrays, array)
    description = _row_description(arrays, source, row_shape)
    rows = exchange_rows("allgather", arrays.shape(source)[0], description)
    result = arrays.empty((sum(rows), *row_shape), source)
    row_bytes = math.prod(row_shape) * arrays.itemsize(source)
    mpi_bridge.allgatherv(source, result, [count * row_bytes for count in rows])
    return result, rows


def alltoall(arrays: Arrays, array: Any, splits: Sequence[int] | None) -> tuple[Any, list[int]]:
    """Send splits[r] rows to rank r; return the rows received and how many came from each rank.

    None divides the rows evenly.
    """
    source, row_shape = _rows(arrays, array)
    total = arrays.shape(source)[0]
    if splits is None:
        if total % size() != 0:
            raise InvalidArgumentError(
                f"alltoall: {total} rows do not divide evenly among {size()} ranks; give splits"
            )
        outgoing = [total // size()] * size()
    else:
        outgoing = [int(count) for count in splits]
        if len(outgoing) != size() or min(outgoing) < 0 or sum(outgoing) != total:
            raise InvalidArgumentError(
                f"alltoall: splits {outgoing} must be {size()} numbers >= 0 that add up to {total}"
            )
    table = mpi_bridge.gather_integers(outgoing)
    incoming = [row[rank()] for row in table]
    exchange_rows("alltoall", total, _row_description(arrays, source, row_shape))
    result = arrays.empty((sum(incoming), *row_shape), source)
    row_bytes = math.prod(row_shape) * arrays.itemsize(source)
    mpi_bridge.alltoallv(
        source,
        [count * row_bytes for count in outgoing],
        result,
        [count * row_bytes for count in incoming],
    )
    return result, incoming


def even_parts(total: int, parts: int) -> list[int]:
    """Return `parts` numbers that add up to `total`; the first ones get the remainder."""
    quotient, remainder = divmod(total, parts)
    return [quotient + (1 if part < remainder else 0) for part in range(parts)]


def reducescatter(
    arrays: Arrays, array: Any, op: ReduceOp, prescale: float = 1.0, postscale: float = 1.0
) -> Any:
    """Reduce, and return this rank's share of the rows; low ranks get the remainder."""
    source, row_shape = _rows(arrays, array)
    if prescale != 1.0:
        source = arrays.scaled(source, prescale)
    rows = even_parts(arrays.shape(source)[0], size())
    result = arrays.empty((rows[rank()], *row_shape), source)
    row_elements = math.prod(row_shape)
    mpi_bridge.reduce_scatter(
        source, result, [count * row_elements for count in rows], reduce_ops.native(op)
    )
    return arrays.scaled(result, postscale) if postscale != 1.0 else result
