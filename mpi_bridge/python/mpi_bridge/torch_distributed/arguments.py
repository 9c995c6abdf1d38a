# SPDX-License-Identifier: Apache-2.0
"""What the arguments of an operation must be, and what must have come for them.

The engine moves most tensors as bytes, and takes memory for a result that is too large. So it sees
neither that the types differ, nor that a part of the result was never written.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch

from ..errors import MismatchError


def require_one_each(operation: str, parts: Sequence[object], size: int) -> None:
    """Raise unless there is one part for each of the group's ranks."""
    if len(parts) != size:
        raise ValueError(f"{operation}: {len(parts)} tensors for {size} ranks")


def require_one_type(operation: str, tensor: torch.Tensor, *lists: Sequence[torch.Tensor]) -> None:
    """Raise unless the elements of all tensors have the type of this one's."""
    for other in chain(*lists):
        if other.dtype != tensor.dtype:
            raise ValueError(
                f"{operation}: there are tensors of {tensor.dtype} and of {other.dtype}; all must "
                "have the same type"
            )


def require_place_for(output: torch.Tensor, part: torch.Tensor) -> None:
    """Raise unless this rank's part of a reduction is as large as its output."""
    if output.numel() != part.numel():
        raise ValueError(
            f"reduce_scatter: the output has {output.numel()} elements, this rank's part "
            f"{part.numel()}"
        )


def rows_for_each(
    operation: str, splits: Sequence[int] | None, tensor: torch.Tensor, size: int
) -> list[int]:
    """Return how many of the tensor's rows are for each of the group's ranks.

    Equal numbers if there are no splits.
    """
    rows = tensor.shape[0]
    if not splits:
        if rows % size:
            raise ValueError(f"{operation}: {rows} rows cannot be divided among {size} ranks")
        return [rows // size] * size
    if len(splits) != size:
        raise ValueError(f"{operation}: {len(splits)} splits for {size} ranks")
    if min(splits) < 0 or sum(splits) != rows:
        raise ValueError(
            f"{operation}: the splits {list(splits)} do not divide the tensor's {rows} rows"
        )
    return list(splits)


def bytes_of_rows(rows: Sequence[int], tensor: torch.Tensor) -> list[int]:
    """Return the lengths of so many rows of the tensor."""
    row = tensor.nbytes // tensor.shape[0] if tensor.shape[0] else 0
    return [count * row for count in rows]


def require_member(rank: int, size: int) -> None:
    """Raise unless the group has a rank of this number."""
    if not 0 <= rank < size:
        raise ValueError(f"the group has no rank {rank}: its ranks are 0 to {size - 1}")


def require_tag(tag: int) -> None:
    """Raise if the tag is negative, which no backend of torch takes."""
    if tag < 0:
        raise ValueError(f"the tag {tag} is negative")


def require_received(
    operation: str, received: Sequence[int], expected: Sequence[int], ranks: Sequence[int]
) -> None:
    """Raise unless as many bytes have come from each of these ranks as there is room for."""
    for rank, came, room in zip(ranks, received, expected):
        if came != room:
            raise MismatchError(
                f"{operation}: rank {rank} sent {came} bytes where {room} were expected"
            )
