# SPDX-License-Identifier: Apache-2.0
"""torch tensors for the engine: each function submits one operation.

The functions return a Pending, whose finish() returns the result as a tensor. Host memory and the
memory of the engine's CUDA device are used as they are; tensors elsewhere travel as copies in host
memory (see placement), and those that are not contiguous, or whose memory has the conjugate of
their values, as copies with their values in order.

An operation on CUDA memory begins after what the current stream holds when it is submitted.
finish() makes the stream wait that is current then. The host waits only until all ranks have
submitted the operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.utils.dlpack

from mpi_bridge import InvalidArgumentError, engine, torch_streams
from mpi_bridge.engine import Kind
from mpi_bridge.plain_tensors import is_plain, plain

from ..common import reduce_ops
from ..common.handles import Filled, Pending, Submitted
from ..common.process_sets import ProcessSet, global_process_set, number_of
from ..common.reduce_ops import Average, ReduceOp
from ..common.util import even_parts
from .placement import Way, way_of


class Reduction(NamedTuple):
    """How elements are reduced: postscale * op over the ranks of (prescale * element)."""

    op: ReduceOp = Average
    prescale: float = 1.0
    postscale: float = 1.0


class Place(NamedTuple):
    """The name, the process set and the group with which an operation is submitted."""

    name: str | None = None
    process_set: ProcessSet = global_process_set
    group: str | None = None
    group_size: int = 0
    waited_for: bool = False

    def options(self, kind: Kind) -> dict[str, Any]:
        """Return the options for the engine; a script's own name is qualified by the kind."""
        options: dict[str, Any] = {
            "name": self.full_name(kind),
            "process_set": number_of(self.process_set),
            "waited_for": self.waited_for,
        }
        if self.group is not None:
            options.update(group=self.group, group_size=self.group_size)
        return options

    def full_name(self, kind: Kind) -> str | None:
        """Return the engine's name for an operation of this kind."""
        return None if self.name is None else f"{kind.name.lower()}.{self.name}"

    def submit(
        self, kind: Kind, send: torch.Tensor, recv: torch.Tensor | None, **options: object
    ) -> engine.Handle:
        """Submit the operation."""
        return engine.submit(kind, send, recv, **self.options(kind), **options)


@dataclass(frozen=True)
class Order:
    """The place of an operation in the order of its device; nothing to do in host memory."""

    device: torch.device
    stream: int | None  # the CUDA stream that the operation follows

    def follow_with(self, *tensors: torch.Tensor | None) -> None:
        """Say that the operation uses these tensors, which may be from other streams."""
        if self.stream is not None:
            used = [each for each in tensors if each is not None]
            torch_streams.keep_from_reuse(self.device, self.stream, used)

    def join(self, *tensors: torch.Tensor) -> None:
        """Make the current stream wait for the operation, once the engine's wait is over.

        `tensors` are those that the stream uses from then on.
        """
        if self.stream is None:
            return
        torch_streams.make_current_wait(self.device, self.stream)
        current = torch_streams.current(self.device)
        torch_streams.keep_from_reuse(self.device, current, tensors)

    def let_go(self) -> None:
        """Before memory goes back: the operation's stream waits for what the current one reads."""
        if self.stream is not None:
            torch_streams.make_wait_for_current(self.device, self.stream)


_HOST_ORDER = Order(torch.device("cpu"), None)


def _is_usable(tensor: torch.Tensor) -> bool:
    """Tell whether the engine can work on the tensor's own memory."""
    return way_of(tensor) is not Way.STAGED and is_plain(tensor)


def readable(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor if the engine can read it, otherwise a copy that it can read."""
    if way_of(tensor) is Way.STAGED:
        return staged(tensor)
    return plain(tensor)


def staged(tensor: torch.Tensor) -> torch.Tensor:
    """Return contiguous host memory with the tensor's values: the tensor itself, or a copy."""
    return plain(tensor).cpu()


def _target_for(output: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Return the output if the engine can write it, otherwise memory like the source's."""
    if _is_usable(output) and output.device == source.device:
        return output.detach()
    return torch.empty_like(source)


def _by_rows(tensor: torch.Tensor) -> torch.Tensor:
    source = readable(tensor)
    return source if source.dim() else source.view(1)


def _begin(
    kind: Kind, tensor: torch.Tensor, output: torch.Tensor, place: Place, **options: Any
) -> Pending:
    source = readable(tensor)
    target = _target_for(output, source)
    handle = place.submit(kind, source, target, **options)
    order = _order_of(handle, source, target)
    if order is _HOST_ORDER:
        return Filled(handle, lambda: _into(output, target, order))
    return Submitted(handle, lambda _: _into(output, target, order))


def _run(
    kind: Kind, tensor: torch.Tensor, output: torch.Tensor, place: Place, **options: Any
) -> torch.Tensor:
    """Do the same, and wait: for tensors in host memory in one native call."""
    for each in (tensor, output):
        if not (each.is_cpu and is_plain(each)):
            return _begin(kind, tensor, output, place, **options).finish()
    engine.call(kind, tensor, output, **place.options(kind), **options)
    return output


def _options_of(reduction: Reduction) -> dict[str, Any]:
    return {
        "op": reduce_ops.native(reduction.op),
        "prescale": reduction.prescale,
        "postscale": reduction.postscale,
    }


def allreduce(
    tensor: torch.Tensor, output: torch.Tensor, reduction: Reduction, place: Place
) -> Pending:
    """Reduce `tensor` into `output`, which may be the same."""
    return _begin(Kind.ALLREDUCE, tensor, output, place, **_options_of(reduction))


def reduced(
    tensor: torch.Tensor, output: torch.Tensor, reduction: Reduction, place: Place
) -> torch.Tensor:
    """Reduce `tensor` into `output`, which may be the same, wait, and return the output."""
    return _run(Kind.ALLREDUCE, tensor, output, place, **_options_of(reduction))


def _order_of(
    handle: engine.Handle, source: torch.Tensor, target: torch.Tensor | None = None
) -> Order:
    if handle.stream is None:
        return _HOST_ORDER
    order = Order(source.device, handle.stream)
    order.follow_with(source, target)
    return order


def _into(output: torch.Tensor, received: torch.Tensor, order: Order) -> torch.Tensor:
    order.join(received, output)
    if received.data_ptr() != output.data_ptr():
        with torch.no_grad():
            output.copy_(received)
        order.let_go()
    return output


def broadcast(tensor: torch.Tensor, output: torch.Tensor, root_rank: int, place: Place) -> Pending:
    """Copy the root's `tensor` into `output`, which may be the same."""
    return _begin(Kind.BROADCAST, tensor, output, place, root=root_rank)


def received(
    tensor: torch.Tensor, output: torch.Tensor, root_rank: int, place: Place
) -> torch.Tensor:
    """Copy the root's `tensor` into `output`, which may be the same, wait, and return it."""
    return _run(Kind.BROADCAST, tensor, output, place, root=root_rank)


def _received(
    result: engine.Result, source: torch.Tensor, like: torch.Tensor, order: Order
) -> torch.Tensor:
    """Copy a result out of the engine's memory."""
    shape = (result.rows, *source.shape[1:])
    tensor = torch.empty(shape, dtype=source.dtype, device=source.device)
    if order.stream is None:
        result.copy_to(tensor)
    elif result.nbytes:
        order.join()
        capsule = result.cuda_bytes().dlpack_capsule(source.device.index)
        content = torch.utils.dlpack.from_dlpack(capsule)
        tensor.view(-1).view(torch.uint8).copy_(content)
        # The engine takes its memory back in the order of that stream.
        order.let_go()
    return tensor.to(like.device)


def allgather(tensor: torch.Tensor, place: Place) -> Submitted:
    """Join all ranks' rows; the result is the tensor and the number of rows of each rank."""
    source = _by_rows(tensor)
    handle = place.submit(Kind.ALLGATHER, source, None)
    order = _order_of(handle, source)
    return Submitted(
        handle, lambda result: (_received(result, source, tensor, order), result.received_rows)
    )


def alltoall(tensor: torch.Tensor, splits: Sequence[int] | None, place: Place) -> Submitted:
    """Send splits[i] rows to member i; the result is the tensor and the rows from each member."""
    source = _by_rows(tensor)
    handle = place.submit(Kind.ALLTOALL, source, None, splits=splits)
    order = _order_of(handle, source)
    return Submitted(
        handle, lambda result: (_received(result, source, tensor, order), result.received_rows)
    )


def require_rows(tensors: Iterable[torch.Tensor]) -> None:
    """Refuse to scatter a scalar, because it has no rows to divide among the ranks."""
    if any(tensor.dim() == 0 for tensor in tensors):
        raise InvalidArgumentError("reducescatter: a tensor must have at least one axis")


def reducescatter(tensor: torch.Tensor, reduction: Reduction, place: Place) -> Submitted:
    """Reduce, and keep this rank's share of the rows; low ranks get the remainder."""
    require_rows([tensor])
    source = readable(tensor)
    number_of(place.process_set)
    rows = even_parts(source.shape[0], place.process_set.size())[place.process_set.rank()]
    target = torch.empty((rows, *source.shape[1:]), dtype=source.dtype, device=source.device)
    handle = place.submit(
        Kind.REDUCE_SCATTER,
        source,
        target,
        **_options_of(reduction),
    )
    order = _order_of(handle, source, target)

    def result(_: engine.Result) -> torch.Tensor:
        order.join(target)
        return target.to(tensor.device)

    return Submitted(handle, result)
