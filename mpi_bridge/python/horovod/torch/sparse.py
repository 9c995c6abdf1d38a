# SPDX-License-Identifier: Apache-2.0
"""Allreduce of sparse tensors: gathers the entries of all ranks and adds equal places."""

from __future__ import annotations

import torch

from ..common.handles import Mapped, Together
from ..common.reduce_ops import Average, ReduceOp
from . import tensors
from .tensors import Place

# Their sums are made as those of dense tensors: an average does not overflow where the sum would.
_SHORT = (torch.float16, torch.bfloat16)


def begin(tensor: torch.Tensor, op: ReduceOp, place: Place) -> Mapped:
    """Submit indices and values; the result is a coalesced sparse tensor."""
    tensor = tensor.detach().coalesce()
    names = (
        (None, None) if place.name is None else (f"{place.name}.indices", f"{place.name}.values")
    )
    indices, values = (place._replace(name=name) for name in names)
    # Allgather joins rows (axis 0), so each place must be a row.
    pending = Together(
        [
            tensors.allgather(tensor.indices().t(), indices),
            tensors.allgather(tensor.values(), values),
        ]
    )
    divisor = place.process_set.size() if op is Average else 1

    def result(gathered: list[tuple[torch.Tensor, tuple[int, ...]]]) -> torch.Tensor:
        (rows, _), (all_values, _) = gathered
        is_short = all_values.dtype in _SHORT
        # The places of a rank whose tensor has another shape may lie outside of this one.
        summed = torch.sparse_coo_tensor(
            rows.t(),
            all_values.float() if is_short else all_values,
            tensor.shape,
            check_invariants=True,
        ).coalesce()
        summed = summed if divisor == 1 else summed / divisor
        return summed.to(all_values.dtype) if is_short else summed

    return Mapped(pending, result)
