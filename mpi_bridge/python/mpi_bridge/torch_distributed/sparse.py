# SPDX-License-Identifier: Apache-2.0
"""Allreduce of sparse tensors: gathers the entries of all members and adds equal places."""

from __future__ import annotations

import math

import torch

from ..datatype import Op
from ..engine import Handle, Kind
from .pending import Pending
from .reductions import reduction_of


def submit(pending: Pending, tensor: torch.Tensor, op: object, size: int) -> None:
    """Sum or average a tensor of the layout COO over `size` members, in place.

    Each member may have entries at other places. The result is coalesced.
    """
    if tensor.layout is not torch.sparse_coo:
        raise NotImplementedError(f"all_reduce of {tensor.layout}: there is torch.sparse_coo only")
    if tensor.dtype is torch.bool or tensor.is_complex():
        raise NotImplementedError(f"all_reduce of sparse tensors of {tensor.dtype}")
    reduction = reduction_of(op, tensor.dtype)
    if reduction.op not in (Op.SUM, Op.AVERAGE) or reduction.prescale != 1:
        raise NotImplementedError("all_reduce of sparse tensors: there are SUM and AVG only")
    own = tensor.detach().coalesce()
    # A row for each entry. The engine compares the types and the lengths of rows.
    parts = [own.indices().t().contiguous(), own.values().contiguous()]
    parts = [part.view(part.shape[0], math.prod(part.shape[1:])) for part in parts]
    gathered = [pending.submit(Kind.ALLGATHER, part, None) for part in parts]
    is_exact = reduction.op is Op.AVERAGE and not tensor.is_floating_point()
    # As sums of dense tensors are made: an average does not overflow where the sum would.
    is_short = tensor.dtype in (torch.float16, torch.bfloat16)
    wide = torch.int64 if is_exact else torch.float32 if is_short else tensor.dtype

    def put_result() -> None:
        places, entries = (_taken(handle, like) for handle, like in zip(gathered, parts))
        entries = entries.view(entries.shape[0], *own.values().shape[1:])
        # The places of a member whose tensor has another shape may lie outside of this one.
        summed = torch.sparse_coo_tensor(
            places.t(),
            entries.to(wide),
            tensor.shape,
            check_invariants=True,
        ).coalesce()
        if is_exact:
            summed = torch.div(summed, size, rounding_mode="trunc")
        elif reduction.op is Op.AVERAGE:
            summed = summed / size
        tensor.copy_(summed.to(tensor.dtype))

    pending.when_done(put_result)


def _taken(handle: Handle, like: torch.Tensor) -> torch.Tensor:
    """Copy a result, whose rows are like those of a matrix, out of the engine's memory."""
    result = handle.wait()
    taken = torch.empty((result.rows, like.shape[1]), dtype=like.dtype, device=like.device)
    if not result.on_device:
        result.copy_to(taken)
    elif result.nbytes:
        content = torch.utils.dlpack.from_dlpack(
            result.cuda_bytes().dlpack_capsule(like.device.index)
        )
        taken.view(-1).view(torch.uint8).copy_(content)
    return taken
