# SPDX-License-Identifier: Apache-2.0
"""Allreduce of sparse tensors: gathers the entries of all members and adds equal places."""

from __future__ import annotations

import torch

from ..datatype import Op
from ..engine import Handle, Kind
from .pending import Pending, as_bytes
from .reductions import reduction_of


def submit(pending: Pending, tensor: torch.Tensor, op: object, size: int) -> None:
    """Sum or average a tensor of the layout COO over `size` members, in place.

    Each member may have entries at other places. The result is coalesced.
    """
    if tensor.layout is not torch.sparse_coo:
        raise NotImplementedError(f"all_reduce of {tensor.layout}: there is torch.sparse_coo only")
    reduction = reduction_of(op, tensor.dtype)
    if reduction.op not in (Op.SUM, Op.AVERAGE) or reduction.prescale != 1:
        raise NotImplementedError("all_reduce of sparse tensors: there are SUM and AVG only")
    own = tensor.detach().coalesce()
    # A row for each entry, so that what is gathered is one tensor.
    indices = own.indices().t().contiguous()
    values = own.values().contiguous()
    gathered = [pending.submit(Kind.ALLGATHER, as_bytes(each), None) for each in (indices, values)]

    def put_sum() -> None:
        places, entries = (
            _taken(handle, like) for handle, like in zip(gathered, (indices, values))
        )
        summed = torch.sparse_coo_tensor(
            places.t(), entries, tensor.shape, check_invariants=False
        ).coalesce()
        tensor.copy_(summed / size if reduction.op is Op.AVERAGE else summed)

    pending.when_done(put_sum)


def _taken(handle: Handle, like: torch.Tensor) -> torch.Tensor:
    """Copy a result, whose rows are like those of a tensor, out of the engine's memory."""
    result = handle.wait()
    flat = torch.empty(result.nbytes, dtype=torch.uint8, device=like.device)
    if not result.on_device:
        result.copy_to(flat)
    elif result.nbytes:
        content = torch.utils.dlpack.from_dlpack(
            result.cuda_bytes().dlpack_capsule(like.device.index)
        )
        flat.copy_(content)
    return flat.view(like.dtype).view(-1, *like.shape[1:])
