# SPDX-License-Identifier: Apache-2.0
"""The engine's counterparts of torch's reductions and element types."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed import ReduceOp

from ..datatype import Op
from ..datatype import from_name as datatype_from_name

_BY_KIND = {
    ReduceOp.SUM: Op.SUM,
    ReduceOp.AVG: Op.AVERAGE,
    ReduceOp.MIN: Op.MIN,
    ReduceOp.MAX: Op.MAX,
    ReduceOp.PRODUCT: Op.PRODUCT,
    ReduceOp.BAND: Op.AND,
    ReduceOp.BOR: Op.OR,
}
# For truth values, as in NCCL.
_OF_BOOL = {Op.SUM: Op.OR, Op.PRODUCT: Op.AND}
_XOR = ReduceOp.BXOR
_PREMUL_SUM = ReduceOp.RedOpType.PREMUL_SUM


@dataclass(frozen=True)
class Reduction:
    """An operation, and the factor that is applied to each element before it."""

    op: Op
    prescale: float = 1.0


def is_xor(op: Any) -> bool:
    """Tell whether torch's reduction is BXOR, which the engine does not have."""
    return getattr(op, "op", op) == _XOR


def xor_of(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the exclusive or of tensors of one shape."""
    return functools.reduce(torch.bitwise_xor, parts)


def reduction_of(op: Any, dtype: torch.dtype) -> Reduction:
    """Return the engine's reduction for torch's."""
    kind = getattr(op, "op", op)
    if kind == _PREMUL_SUM:
        _, factor = op.__getstate__()
        if isinstance(factor, torch.Tensor):
            factor = factor.item()
        return Reduction(Op.SUM, float(factor))
    found = _BY_KIND.get(kind)
    if found is None:
        raise NotImplementedError(f"the reduction {kind} is not supported yet by mpi_bridge")
    if dtype is torch.bool:
        found = _OF_BOOL.get(found, found)
    return Reduction(found)


def reducible(tensor: torch.Tensor, reduction: Reduction) -> torch.Tensor:
    """Return the elements as a flat tensor of a type that the engine can reduce."""
    flat = tensor.view(-1)
    if flat.is_complex():
        if reduction.op not in (Op.SUM, Op.AVERAGE):
            raise NotImplementedError(
                f"{reduction.op.name} of complex numbers: there are SUM and AVG only"
            )
        flat = torch.view_as_real(flat).view(-1)
    name = str(flat.dtype).rpartition(".")[2]
    if datatype_from_name(name) is None:
        raise NotImplementedError(f"tensors of {flat.dtype} cannot be reduced by mpi_bridge yet")
    return flat
