# SPDX-License-Identifier: Apache-2.0
"""The operations of one call of torch.distributed, which torch sees as one Work.

Results that cannot be received in place (lists of tensors, tensors that are not contiguous, members
in another order than the engine's) are copied to their place when the operations are done.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable

import torch

from .. import engine, torch_streams
from ..engine import Handle, Kind
from ..plain_tensors import is_plain, plain
from .arguments import require_received
from .work import EngineWork

if TYPE_CHECKING:
    from .operations import Operations


def is_waited_for(opts: Any) -> bool:
    """Tell whether torch waits for the operation as soon as it has been started."""
    # Older versions of torch do not say.
    return not getattr(opts, "asyncOp", True)


def signature_of(kind: Kind, send: Any, options: Mapping[str, Any]) -> Hashable:
    """Return the properties of an operation that are equal on all ranks."""
    varies = kind in (Kind.ALLGATHER, Kind.ALLTOALL)
    layout = None if send is None or varies else (send.dtype, send.numel())
    return kind, layout, options.get("op"), options.get("root")


class Pending:
    """Collects the operations, and what is to be done with their results."""

    def __init__(self, group: Operations, result: list[torch.Tensor], opts: Any) -> None:
        self._group = group
        self._result = result
        self._names: list[str] = []
        self._handles: list[Handle] = []
        self._streams: dict[torch.device, int] = {}
        self._checks: list[Callable[[], None]] = []
        self._finish: list[Callable[[], None]] = []
        self._is_waited_for = is_waited_for(opts)
        self.limit = group._limit  # the timeout in seconds, or None

    def in_place(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return contiguous memory with the tensor's values, which receives the result."""
        if is_plain(tensor):
            return tensor.detach()
        copied = plain(tensor)
        self.copy_when_done(copied, tensor)
        return copied

    def target(self, tensor: torch.Tensor, send: torch.Tensor | None = None) -> torch.Tensor:
        """Return contiguous memory that receives the tensor's new values, apart from `send`."""
        if is_plain(tensor) and (send is None or not _overlap(tensor, send)):
            return tensor.detach()
        made = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
        self.copy_when_done(made, tensor)
        return made

    def copy_when_done(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy when the operations are done, after the copies that were asked for before."""
        place = target.detach()
        self.when_done(lambda: place.copy_(source))

    def when_done(self, action: Callable[[], Any]) -> None:
        """Call this when the operations have succeeded, after what was asked for before."""
        self._finish.append(action)

    def expect(self, operation: str, handle: Handle, sizes: Sequence[int]) -> None:
        """Fail before any copy unless so many bytes come from the members, in the engine's order.

        It is for allgather and alltoall.
        """
        ranks = self._group._engine_order(self._group._members)
        self._checks.append(
            lambda: require_received(operation, handle.wait().received_rows, sizes, ranks)
        )

    def submit(self, kind: Kind, send: Any, recv: Any = None, **options: Any) -> Handle:
        """Hand an operation to the engine; its handle is released with the Work."""
        if send is not None and send.is_cuda:
            options["stream"] = self._note_stream(send.device)
        name = self._group._next_name(signature_of(kind, send, options), self._names)
        # Where the caller waits, nothing goes on beside the reduction, and the copies do not pay.
        if kind == Kind.ALLREDUCE and not self._is_waited_for:
            place = self._group._place_for(name, send)
            if place is not None:
                place.copy_(send)
                # This copy must come before the one to a tensor that is not contiguous.
                shared, private = place, send
                self._finish.insert(0, lambda: private.copy_(shared))
                send = recv = place
        self._names.append(name)
        handle = engine.submit(
            kind,
            send,
            recv,
            name=name,
            process_set=self._group._process_set,
            waited_for=self._is_waited_for,
            **options,
        )
        self._handles.append(handle)
        return handle

    def _note_stream(self, device: torch.device) -> int:
        stream = torch_streams.current(device)
        self._streams[device] = stream
        return stream

    def work(self) -> EngineWork:
        """Return the Work that stands for all of it."""
        work = EngineWork(
            self._handles,
            self._result,
            self._complete if self._finish else None,
            self._group._completer,
            limit=self.limit,
            streams=self._streams,
            check=self._look if self._checks else None,
        )
        self._group._remember(self._names, work)
        return work

    def _look(self) -> None:
        for check in self._checks:
            check()

    def _complete(self) -> None:
        with torch.no_grad():
            for action in self._finish:
                action()


def _overlap(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Tell whether two plain tensors share memory."""
    one, other = first.data_ptr(), second.data_ptr()
    return one < other + second.nbytes and other < one + first.nbytes


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor's memory as a flat tensor of bytes."""
    if tensor.numel() == 0:
        return torch.empty(0, dtype=torch.uint8, device=tensor.device)
    flat = tensor.view(-1)
    if flat.stride(0) != 1:
        # Of a single element, torch takes any stride for contiguous.
        flat = flat.as_strided(flat.shape, (1,))
    return flat.view(torch.uint8)


def whole_of(parts: Sequence[torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    """Return flat memory for all parts, one after the other."""
    return torch.empty(sum(part.numel() for part in parts), dtype=like.dtype, device=like.device)


def split_like(whole: torch.Tensor, parts: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the pieces of flat memory in the parts' shapes."""
    pieces = torch.split(whole, [part.numel() for part in parts])
    return [piece.view(part.shape) for piece, part in zip(pieces, parts)]
