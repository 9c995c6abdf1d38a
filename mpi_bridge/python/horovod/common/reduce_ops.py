# SPDX-License-Identifier: Apache-2.0
"""Horovod's reduction constants and what they mean to mpi_bridge."""

from __future__ import annotations

import enum

from mpi_bridge.datatype import Op

from .unsupported import not_supported


class ReduceOp(enum.IntEnum):
    """A reduction, numbered as in Horovod."""

    AVERAGE = 0
    SUM = 1
    ADASUM = 2
    MIN = 3
    MAX = 4
    PRODUCT = 5


Average = ReduceOp.AVERAGE
Sum = ReduceOp.SUM
Adasum = ReduceOp.ADASUM
Min = ReduceOp.MIN
Max = ReduceOp.MAX
Product = ReduceOp.PRODUCT

_NATIVE = {Average: Op.AVERAGE, Sum: Op.SUM, Min: Op.MIN, Max: Op.MAX, Product: Op.PRODUCT}


def resolve(op: int | None, average: bool | None = None, allow_adasum: bool = False) -> ReduceOp:
    """Return the operation meant by `op` and the deprecated `average`; the default is Average."""
    if op is not None and average is not None:
        raise ValueError("give op or the deprecated average, not both")
    if average is not None:
        return Average if average else Sum
    chosen = Average if op is None else ReduceOp(op)
    if chosen is Adasum and not allow_adasum:
        raise not_supported("op=Adasum", "use Average or Sum")
    return chosen


def native(op: ReduceOp) -> Op:
    """Return mpi_bridge's name of the operation."""
    return _NATIVE[op]
