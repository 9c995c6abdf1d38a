# SPDX-License-Identifier: Apache-2.0
"""torch.distributed's process group over the engine.

Operations of a group are matched by their order, as torch requires; naming.py turns the order into
the engine's names. Results that cannot be received in place (lists of tensors, tensors that are not
contiguous) are copied to their place when the operation is done.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Callable

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from .. import engine
from ..engine import Handle, Kind
from .naming import Naming
from .reductions import reducible, reduction_of
from .staging import Staging
from .work import Completer, EngineWork

_ALLREDUCE = c10d.AllreduceOptions()
_REDUCE = c10d.ReduceOptions()
_BROADCAST = c10d.BroadcastOptions()
_ALLGATHER = c10d.AllgatherOptions()
_GATHER = c10d.GatherOptions()
_SCATTER = c10d.ScatterOptions()
_REDUCE_SCATTER = c10d.ReduceScatterOptions()
_ALLTOALL = c10d.AllToAllOptions()
_BARRIER = c10d.BarrierOptions()

Finish = Callable[[], None]


class EngineProcessGroup(dist.ProcessGroup):
    """The ranks of a process set of the engine; `members` are their numbers in the job."""

    def __init__(self, name: str, process_set: int, members: Sequence[int], rank: int) -> None:
        super().__init__(rank, len(members))
        self._name = name
        self._process_set = process_set
        self._members = list(members)
        self._group_rank = rank
        self._naming = Naming(f"torch.{name}")
        self._completer = Completer(name)
        self._staging = Staging()
        self._by_name: dict[str, EngineWork] = {}

    # Properties that torch asks of every group.

    def size(self) -> int:
        """Return the number of ranks in the group."""
        return len(self._members)

    def rank(self) -> int:
        """Return this rank's number in the group."""
        return self._group_rank

    def name(self) -> str:
        """Return the name of the backend."""
        return "mpi_bridge"

    def getBackendName(self) -> str:
        """Return the name of the backend."""
        return "mpi_bridge"

    @property
    def group_name(self) -> str:
        """The name under which torch knows the group."""
        return self._name

    @property
    def pg_name(self) -> str:
        """The name under which torch knows the group."""
        return self._name

    def shutdown(self) -> None:
        """End the group's thread."""
        self._completer.stop()

    abort = shutdown

    # Reductions.

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = _ALLREDUCE) -> dist.Work:
        """Reduce each tensor in place."""
        return self.allreduce_coalesced(tensors, opts)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any = _ALLREDUCE) -> dist.Work:
        """Reduce the tensors in place."""
        pending = _Pending(self, tensors)
        for tensor in tensors:
            reduction = reduction_of(opts.reduceOp, tensor.dtype)
            flat = reducible(pending.in_place(tensor), reduction)
            pending.submit(Kind.ALLREDUCE, flat, flat, op=reduction.op, prescale=reduction.prescale)
        return pending.work()

    def reduce(self, tensors: list[torch.Tensor], opts: Any = _REDUCE) -> dist.Work:
        """Reduce to the root, in place there."""
        (tensor,) = tensors
        pending = _Pending(self, tensors)
        reduction = reduction_of(opts.reduceOp, tensor.dtype)
        is_root = opts.rootRank == self._group_rank
        source = pending.in_place(tensor) if is_root else tensor.detach().contiguous()
        flat = reducible(source, reduction)
        pending.submit(
            Kind.REDUCE,
            flat,
            flat if is_root else None,
            op=reduction.op,
            prescale=reduction.prescale,
            root=self._members[opts.rootRank],
        )
        return pending.work()

    def reduce_scatter_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any = _REDUCE_SCATTER
    ) -> dist.Work:
        """Reduce `input` and leave each rank its part in `output`; all parts have equal lengths."""
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(
        self,
        outputs: list[torch.Tensor],
        inputs: list[torch.Tensor],
        opts: Any = _REDUCE_SCATTER,
    ) -> dist.Work:
        """Do the same for each pair of tensors."""
        pending = _Pending(self, outputs)
        for output, source in zip(outputs, inputs):
            if source.numel() != output.numel() * self.size():
                raise ValueError(
                    f"reduce_scatter: the input has {source.numel()} elements, not "
                    f"{self.size()} times the output's {output.numel()}"
                )
            reduction = reduction_of(opts.reduceOp, source.dtype)
            pending.submit(
                Kind.REDUCE_SCATTER,
                reducible(source.detach().contiguous(), reduction),
                reducible(pending.target(output), reduction),
                op=reduction.op,
                prescale=reduction.prescale,
            )
        return pending.work()

    def reduce_scatter(
        self,
        outputs: list[torch.Tensor],
        inputs: list[list[torch.Tensor]],
        opts: Any = _REDUCE_SCATTER,
    ) -> dist.Work:
        """Reduce lists with a tensor for each rank, and leave each rank its own."""
        pending = _Pending(self, outputs)
        for output, parts in zip(outputs, inputs):
            self._require_one_each("reduce_scatter", parts)
            whole = torch.cat([part.detach().reshape(-1) for part in parts])
            reduction = reduction_of(opts.reduceOp, whole.dtype)
            options = {"op": reduction.op, "prescale": reduction.prescale}
            if len({part.numel() for part in parts}) == 1:
                target = pending.target(output)
                pending.submit(
                    Kind.REDUCE_SCATTER,
                    reducible(whole, reduction),
                    reducible(target, reduction),
                    **options,
                )
                continue
            # The engine divides only into equal parts.
            flat = reducible(whole, reduction)
            pending.submit(Kind.ALLREDUCE, flat, flat, **options)
            pending.copy_when_done(_split_like(whole, parts)[self._group_rank], output)
        return pending.work()

    # Collectives that move data of any type.

    def broadcast(self, tensors: list[torch.Tensor], opts: Any = _BROADCAST) -> dist.Work:
        """Overwrite the tensors with the root's."""
        pending = _Pending(self, tensors)
        for tensor in tensors:
            flat = _as_bytes(pending.in_place(tensor))
            pending.submit(Kind.BROADCAST, flat, flat, root=self._members[opts.rootRank])
        return pending.work()

    def all_gather_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any = _ALLGATHER
    ) -> dist.Work:
        """Join the ranks' tensors, all of one shape, in `output`."""
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = _ALLGATHER
    ) -> dist.Work:
        """Do the same for each pair of tensors."""
        pending = _Pending(self, outputs)
        for output, source in zip(outputs, inputs):
            if output.numel() != source.numel() * self.size():
                raise ValueError(
                    f"all_gather: the output has {output.numel()} elements, not "
                    f"{self.size()} times the input's {source.numel()}"
                )
            target = pending.target(output)
            pending.submit(
                Kind.ALLGATHER, _as_bytes(source.detach().contiguous()), _as_bytes(target)
            )
        return pending.work()

    def allgather(
        self,
        outputs: list[list[torch.Tensor]],
        inputs: list[torch.Tensor],
        opts: Any = _ALLGATHER,
    ) -> dist.Work:
        """Give every rank a list of all ranks' tensors, whose shapes may differ."""
        pending = _Pending(self, [tensor for parts in outputs for tensor in parts])
        for parts, source in zip(outputs, inputs):
            self._require_one_each("all_gather", parts)
            whole = _whole_of(parts, source)
            pending.submit(
                Kind.ALLGATHER, _as_bytes(source.detach().contiguous()), _as_bytes(whole)
            )
            for piece, part in zip(_split_like(whole, parts), parts):
                pending.copy_when_done(piece, part)
        return pending.work()

    def allgather_coalesced(
        self,
        outputs: list[list[torch.Tensor]],
        inputs: list[torch.Tensor],
        opts: Any = _ALLGATHER,
    ) -> dist.Work:
        """Gather each of the tensors."""
        return self.allgather(outputs, inputs, opts)

    def gather(
        self,
        outputs: list[list[torch.Tensor]],
        inputs: list[torch.Tensor],
        opts: Any = _GATHER,
    ) -> dist.Work:
        """Give the root a list of all ranks' tensors."""
        (source,) = inputs
        parts = outputs[0] if outputs else []
        is_root = opts.rootRank == self._group_rank
        if is_root:
            self._require_one_each("gather", parts)
        pending = _Pending(self, parts)
        send = _as_bytes(source.detach().contiguous())
        splits = [0] * self.size()
        splits[opts.rootRank] = send.numel()
        whole = _whole_of(parts if is_root else [], source)
        pending.submit(Kind.ALLTOALL, send, _as_bytes(whole), splits=splits)
        if is_root:
            for piece, part in zip(_split_like(whole, parts), parts):
                pending.copy_when_done(piece, part)
        return pending.work()

    def scatter(
        self,
        outputs: list[torch.Tensor],
        inputs: list[list[torch.Tensor]],
        opts: Any = _SCATTER,
    ) -> dist.Work:
        """Give each rank its tensor of the root's list."""
        (output,) = outputs
        parts = inputs[0] if inputs else []
        splits = [0] * self.size()
        if opts.rootRank == self._group_rank:
            self._require_one_each("scatter", parts)
            splits = [part.numel() * part.element_size() for part in parts]
        pending = _Pending(self, outputs)
        send = torch.cat([_as_bytes(part.detach().contiguous()) for part in parts] or [_NO_BYTES])
        pending.submit(Kind.ALLTOALL, send, _as_bytes(pending.target(output)), splits=splits)
        return pending.work()

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: list[int] | None = None,
        input_split_sizes: list[int] | None = None,
        opts: Any = _ALLTOALL,
    ) -> dist.Work:
        """Send each rank its rows of `input`, an equal number if no sizes are given."""
        if not input_split_sizes and input.shape[0] % self.size():
            raise ValueError(
                f"all_to_all: {input.shape[0]} rows cannot be shared among {self.size()} ranks"
            )
        rows = input_split_sizes or [input.shape[0] // self.size()] * self.size()
        send = _as_bytes(input.detach().contiguous())
        row_bytes = send.numel() // input.shape[0] if input.shape[0] else 0
        pending = _Pending(self, [output])
        pending.submit(
            Kind.ALLTOALL,
            send,
            _as_bytes(pending.target(output)),
            splits=[count * row_bytes for count in rows],
        )
        return pending.work()

    def alltoall(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = _ALLTOALL
    ) -> dist.Work:
        """Send each rank one of `inputs`."""
        self._require_one_each("all_to_all", inputs)
        self._require_one_each("all_to_all", outputs)
        pending = _Pending(self, outputs)
        whole = _whole_of(outputs, inputs[0])
        pieces = [_as_bytes(part.detach().contiguous()) for part in inputs]
        pending.submit(
            Kind.ALLTOALL,
            torch.cat(pieces),
            _as_bytes(whole),
            splits=[piece.numel() for piece in pieces],
        )
        for piece, output in zip(_split_like(whole, outputs), outputs):
            pending.copy_when_done(piece, output)
        return pending.work()

    def barrier(self, opts: Any = _BARRIER) -> dist.Work:
        """Complete when every rank has entered it."""
        pending = _Pending(self, [])
        pending.submit(Kind.BARRIER, None)
        return pending.work()

    # Names that older versions of torch use.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def _point_to_point(self, *_arguments: Any, **_options: Any) -> dist.Work:
        raise NotImplementedError(
            "send and recv are not supported yet by mpi_bridge; all_to_all_single moves data "
            "between any ranks that all take part"
        )

    send = recv = recv_anysource = _point_to_point

    def _require_one_each(self, operation: str, parts: Sequence[torch.Tensor]) -> None:
        if len(parts) != self.size():
            raise ValueError(f"{operation}: {len(parts)} tensors for {self.size()} ranks")

    def _next_name(self, signature: Hashable) -> str:
        name = self._naming.name(signature)
        earlier = self._by_name.pop(name, None)
        # All ranks have submitted the earlier operation, or will do so before they come to this
        # one.
        if earlier is not None:
            earlier.complete()
        return name

    def _place_for(self, name: str, flat: torch.Tensor) -> torch.Tensor | None:
        """Return the shared memory in which to make the allreduce, or None."""
        cycle = self._naming.cycle_of(name)
        return self._staging.place_for(name, cycle, flat) if cycle else None

    def _submit(
        self, name: str, kind: Kind, send: Any, recv: Any, options: dict[str, Any]
    ) -> Handle:
        return engine.submit(kind, send, recv, name=name, process_set=self._process_set, **options)

    def _remember(self, names: list[str], work: EngineWork) -> None:
        for name in names:
            self._by_name[name] = work


class _Pending:
    """The operations of one call, which are to become a Work."""

    def __init__(self, group: EngineProcessGroup, result: list[torch.Tensor]) -> None:
        self._group = group
        self._result = result
        self._names: list[str] = []
        self._handles: list[Handle] = []
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []

    def in_place(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return contiguous memory with the tensor's values, which receives the result."""
        contiguous = tensor.detach().contiguous()
        if contiguous.data_ptr() != tensor.data_ptr():
            self.copy_when_done(contiguous, tensor)
        return contiguous

    def target(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return contiguous memory that receives the tensor's new values."""
        if tensor.is_contiguous():
            return tensor.detach()
        made = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
        self.copy_when_done(made, tensor)
        return made

    def copy_when_done(self, source: torch.Tensor, target: torch.Tensor) -> None:
        self._copies.append((source, target.detach()))

    def submit(self, kind: Kind, send: Any, recv: Any = None, **options: Any) -> None:
        if send is not None and send.device.type == "cuda":
            options["stream"] = torch.cuda.current_stream(send.device).cuda_stream
        varies = kind in (Kind.ALLGATHER, Kind.ALLTOALL)
        # These properties are equal on all ranks.
        signature = (
            kind,
            None if send is None or varies else (send.dtype, send.numel()),
            options.get("op"),
            options.get("root"),
        )
        name = self._group._next_name(signature)
        if kind == Kind.ALLREDUCE:
            place = self._group._place_for(name, send)
            if place is not None:
                place.copy_(send)
                # This copy must come before the one to a tensor that is not contiguous.
                self._copies.insert(0, (place, send))
                send = recv = place
        self._names.append(name)
        self._handles.append(self._group._submit(name, kind, send, recv, options))

    def work(self) -> EngineWork:
        work = EngineWork(
            self._handles,
            self._result,
            self._copy if self._copies else None,
            self._group._completer,
        )
        self._group._remember(self._names, work)
        return work

    def _copy(self) -> None:
        with torch.no_grad():
            for source, target in self._copies:
                target.copy_(source)


_NO_BYTES = torch.empty(0, dtype=torch.uint8)


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor's memory as a flat tensor of bytes."""
    if tensor.numel() == 0:
        return torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return tensor.view(-1).view(torch.uint8)


def _whole_of(parts: Sequence[torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    """Return flat memory for all parts, one after the other."""
    return torch.empty(sum(part.numel() for part in parts), dtype=like.dtype, device=like.device)


def _split_like(whole: torch.Tensor, parts: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    pieces = torch.split(whole, [part.numel() for part in parts])
    return [piece.view(part.shape) for piece, part in zip(pieces, parts)]
