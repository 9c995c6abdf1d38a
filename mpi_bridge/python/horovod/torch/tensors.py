# SPDX-License-Identifier: Apache-2.0
"""torch tensors for the engine: each function submits one operation.

The functions return a Pending, whose finish() returns the result as a tensor. Tensors that are not
contiguous in host memory travel as contiguous copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from mpi_bridge import InvalidArgumentError, engine
from mpi_bridge.engine import Kind

from ..common import reduce_ops
from ..common.handles import Submitted
from ..common.process_sets import ProcessSet, global_process_set, number_of
from ..common.reduce_ops import Average, ReduceOp
from ..common.util import even_parts


@dataclass(frozen=True)
class Reduction:
    """How elements are reduced: postscale * op over the ranks of (prescale * element)."""

    op: ReduceOp = Average
    prescale: float = 1.0
    postscale: float = 1.0


@dataclass(frozen=True)
class Place:
    """The name, the process set and the group with which an operation is submitted."""

    name: str | None = None
    process_set: ProcessSet = global_process_set
    group: str | None = None
    group_size: int = 0
    waited_for: bool = False

    def full_name(self, kind: Kind) -> str | None:
        """Return the engine's name for an operation of this kind."""
        return None if self.name is None else f"{kind.name.lower()}.{self.name}"

    def submit(
        self, kind: Kind, send: torch.Tensor, recv: torch.Tensor | None, **options: object
    ) -> engine.Handle:
        """Submit the operation; a script's own name is qualified by the kind of the operation."""
        return engine.submit(
            kind,
            send,
            recv,
            name=self.full_name(kind),
            process_set=number_of(self.process_set),
            group=self.group,
            group_size=self.group_size,
            waited_for=self.waited_for,
            **options,
        )


def is_plain(tensor: torch.Tensor) -> bool:
    """Tell whether the engine can work on the tensor's own memory."""
    return tensor.device.type == "cpu" and tensor.is_contiguous()


def staged(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor if the engine can read it, otherwise a copy that it can read."""
    return tensor.detach().cpu().contiguous()


def _by_rows(tensor: torch.Tensor) -> torch.Tensor:
    source = staged(tensor)
    return source if source.dim() else source.view(1)


def allreduce(
    tensor: torch.Tensor, output: torch.Tensor, reduction: Reduction, place: Place
) -> Submitted:
    """Reduce `tensor` into `output`, which may be the same."""
    source = staged(tensor)
    target = output.detach() if is_plain(output) else torch.empty_like(source)
    handle = place.submit(
        Kind.ALLREDUCE,
        source,
        target,
        op=reduce_ops.native(reduction.op),
        prescale=reduction.prescale,
        postscale=reduction.postscale,
    )
    return Submitted(handle, lambda _: _into(output, target))


def _into(output: torch.Tensor, received: torch.Tensor) -> torch.Tensor:
    if received.data_ptr() != output.data_ptr():
        with torch.no_grad():
            output.copy_(received)
    return output


def broadcast(
    tensor: torch.Tensor, output: torch.Tensor, root_rank: int, place: Place
) -> Submitted:
    """Copy the root's `tensor` into `output`, which may be the same."""
    source = staged(tensor)
    target = output.detach() if is_plain(output) else torch.empty_like(source)
    handle = place.submit(Kind.BROADCAST, source, target, root=root_rank)
    return Submitted(handle, lambda _: _into(output, target))


def _received(result: engine.Result, source: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    tensor = torch.empty((result.rows, *source.shape[1:]), dtype=source.dtype)
    result.copy_to(tensor)
    return tensor.to(like.device)


def allgather(tensor: torch.Tensor, place: Place) -> Submitted:
    """Join all ranks' rows; the result is the tensor and the number of rows of each rank."""
    source = _by_rows(tensor)
    handle = place.submit(Kind.ALLGATHER, source, None)
    return Submitted(
        handle, lambda result: (_received(result, source, tensor), result.received_rows)
    )


def alltoall(tensor: torch.Tensor, splits: Sequence[int] | None, place: Place) -> Submitted:
    """Send splits[i] rows to member i; the result is the tensor and the rows from each member."""
    source = _by_rows(tensor)
    handle = place.submit(Kind.ALLTOALL, source, None, splits=splits)
    return Submitted(
        handle, lambda result: (_received(result, source, tensor), result.received_rows)
    )


def require_rows(tensors: Iterable[torch.Tensor]) -> None:
    """Refuse to scatter a scalar, because it has no rows to divide among the ranks."""
    if any(tensor.dim() == 0 for tensor in tensors):
        raise InvalidArgumentError("reducescatter: a tensor must have at least one axis")


def reducescatter(tensor: torch.Tensor, reduction: Reduction, place: Place) -> Submitted:
    """Reduce, and keep this rank's share of the rows; low ranks get the remainder."""
    require_rows([tensor])
    source = staged(tensor)
    number_of(place.process_set)
    rows = even_parts(source.shape[0], place.process_set.size())[place.process_set.rank()]
    target = torch.empty((rows, *source.shape[1:]), dtype=source.dtype)
    handle = place.submit(
        Kind.REDUCE_SCATTER,
        source,
        target,
        op=reduce_ops.native(reduction.op),
        prescale=reduction.prescale,
        postscale=reduction.postscale,
    )
    return Submitted(handle, lambda _: target.to(tensor.device))
