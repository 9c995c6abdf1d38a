# SPDX-License-Identifier: Apache-2.0
"""The collectives of torch.distributed over the engine.

Operations of a group are matched by their order, as torch requires; naming.py turns the order into
the engine's names. The engine numbers the members of a process set by ascending ranks. torch allows
any order, so parts that belong to members are brought into the engine's order and back.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from .. import engine
from ..engine import Kind
from ..plain_tensors import is_plain, plain
from . import sparse
from .arguments import (
    bytes_of_rows,
    require_member,
    require_one_each,
    require_one_type,
    require_place_for,
    rows_for_each,
)
from .completer import Completer, OwnCompleter
from .naming import Naming
from .pending import (
    Pending,
    as_bytes,
    is_waited_for,
    signature_of,
    split_like,
    whole_of,
)
from .reductions import is_xor, reducible, reduction_of, xor_of
from .staging import Staging
from .work import DONE, EngineWork
from .works import WorksInFlight

_ALLREDUCE = c10d.AllreduceOptions()
_REDUCE = c10d.ReduceOptions()
_BROADCAST = c10d.BroadcastOptions()
_ALLGATHER = c10d.AllgatherOptions()
_GATHER = c10d.GatherOptions()
_SCATTER = c10d.ScatterOptions()
_REDUCE_SCATTER = c10d.ReduceScatterOptions()
_ALLTOALL = c10d.AllToAllOptions()
_BARRIER = c10d.BarrierOptions()

Part = TypeVar("Part")


class Operations:
    """What the two kinds of groups in process_group.py have in common.

    `members` are the members' numbers in the job, in the group's order. `limit` is the timeout in
    seconds if the group has one of its own.
    """

    def __init__(
        self, name: str, process_set: int, members: Sequence[int], rank: int, limit: float | None
    ) -> None:
        self._name = name
        self._process_set = process_set
        self._members = list(members)
        self._group_rank = rank
        self._limit = limit
        self._naming = Naming(f"torch.{name}")
        self._order = threading.Lock()
        self._completer = Completer(name)
        self._own_completer = OwnCompleter(name)
        self._staging = Staging()
        self._in_flight = WorksInFlight()
        self._coalesced: list[EngineWork] | None = None
        self._in_engine_order = sorted(range(len(self._members)), key=self._members.__getitem__)
        self._is_ascending = self._in_engine_order == list(range(len(self._members)))
        self._engine_rank = self._in_engine_order.index(rank)

    def size(self) -> int:
        """Return the number of ranks in the group."""
        return len(self._members)

    def rank(self) -> int:
        """Return this rank's number in the group."""
        return self._group_rank

    def _engine_order(self, parts: Sequence[Part]) -> list[Part]:
        """Return what belongs to the members in the order in which the engine numbers them."""
        return [parts[member] for member in self._in_engine_order]

    def _members_order(self, parts: Sequence[Part]) -> list[Part]:
        """Return what the engine has numbered in the order of the members."""
        placed = dict(zip(self._in_engine_order, parts))
        return [placed[member] for member in range(len(placed))]

    def _job_rank(self, member: int) -> int:
        require_member(member, self.size())
        return self._members[member]

    # Reductions.

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = _ALLREDUCE) -> dist.Work:
        """Reduce each tensor in place."""
        return self.allreduce_coalesced(tensors, opts)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any = _ALLREDUCE) -> dist.Work:
        """Reduce the tensors in place."""
        if len(tensors) == 1 and self._can_run_now(tensors[0], opts) and not is_xor(opts.reduceOp):
            reduction = reduction_of(opts.reduceOp, tensors[0].dtype)
            flat = reducible(tensors[0].detach(), reduction)
            self._run_now(Kind.ALLREDUCE, flat, op=reduction.op, prescale=reduction.prescale)
            return DONE
        pending = Pending(self, tensors, opts)
        for tensor in tensors:
            if tensor.layout is not torch.strided:
                sparse.submit(pending, tensor, opts.reduceOp, self.size())
                continue
            if is_xor(opts.reduceOp):
                self._xor_all(pending, tensor, tensor)
                continue
            reduction = reduction_of(opts.reduceOp, tensor.dtype)
            flat = reducible(pending.in_place(tensor), reduction)
            pending.submit(Kind.ALLREDUCE, flat, flat, op=reduction.op, prescale=reduction.prescale)
        return pending.work()

    def reduce(self, tensors: list[torch.Tensor], opts: Any = _REDUCE) -> dist.Work:
        """Reduce to the root, in place there."""
        (tensor,) = tensors
        pending = Pending(self, tensors, opts)
        root = self._job_rank(opts.rootRank)
        is_root = opts.rootRank == self._group_rank
        if is_xor(opts.reduceOp):
            self._xor_all(pending, tensor, tensor if is_root else None)
            return pending.work()
        reduction = reduction_of(opts.reduceOp, tensor.dtype)
        source = pending.in_place(tensor) if is_root else plain(tensor)
        flat = reducible(source, reduction)
        pending.submit(
            Kind.REDUCE,
            flat,
            flat if is_root else None,
            op=reduction.op,
            prescale=reduction.prescale,
            root=root,
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
        pending = Pending(self, outputs, opts)
        for output, source in zip(outputs, inputs):
            if source.numel() != output.numel() * self.size():
                raise ValueError(
                    f"reduce_scatter: the input has {source.numel()} elements, not "
                    f"{self.size()} times the output's {output.numel()}"
                )
            flat = plain(source).view(-1)
            if not self._is_ascending or is_xor(opts.reduceOp):
                parts = list(flat.chunk(self.size()))
                self._reduce_scatter(pending, output, parts, opts.reduceOp)
                continue
            reduction = reduction_of(opts.reduceOp, source.dtype)
            pending.submit(
                Kind.REDUCE_SCATTER,
                reducible(flat, reduction),
                reducible(pending.target(output, flat), reduction),
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
        pending = Pending(self, outputs, opts)
        for output, parts in zip(outputs, inputs):
            require_one_each("reduce_scatter", parts, self.size())
            require_place_for(output, parts[self._group_rank])
            flat = [part.detach().reshape(-1) for part in parts]
            self._reduce_scatter(pending, output, flat, opts.reduceOp)
        return pending.work()

    def _reduce_scatter(
        self, pending: Pending, output: torch.Tensor, parts: list[torch.Tensor], op: Any
    ) -> None:
        """Reduce flat parts, one for each member, and leave each member its own."""
        own = parts[self._group_rank].numel()
        if is_xor(op):
            send = as_bytes(torch.cat(self._engine_order(parts)))
            splits = [part.numel() * part.element_size() for part in self._engine_order(parts)]
            require_one_type("reduce_scatter", output, parts)
            whole = torch.empty(own * self.size(), dtype=output.dtype, device=output.device)
            handle = pending.submit(Kind.ALLTOALL, send, as_bytes(whole), splits=splits)
            pending.expect("reduce_scatter", handle, [parts[self._group_rank].nbytes] * self.size())
            pending.when_done(
                lambda: output.detach().copy_(xor_of(whole.chunk(self.size())).view(output.shape))
            )
            return
        whole = torch.cat(self._engine_order(parts))
        reduction = reduction_of(op, whole.dtype)
        options = {"op": reduction.op, "prescale": reduction.prescale}
        flat = reducible(whole, reduction)
        if len({part.numel() for part in parts}) == 1:
            target = reducible(pending.target(output), reduction)
            pending.submit(Kind.REDUCE_SCATTER, flat, target, **options)
            return
        # The engine divides only into equal parts.
        pending.submit(Kind.ALLREDUCE, flat, flat, **options)
        place = sum(part.numel() for part in self._engine_order(parts)[: self._engine_rank])
        pending.copy_when_done(whole[place : place + own].view(output.shape), output)

    def _xor_all(self, pending: Pending, source: torch.Tensor, target: torch.Tensor | None) -> None:
        """Gather all members' tensors, and combine them in the target if there is one."""
        flat = plain(source).view(-1)
        if flat.is_floating_point() or flat.is_complex():
            raise ValueError(f"BXOR of {flat.dtype}: it is for integers and truth values")
        whole = torch.empty(flat.numel() * self.size(), dtype=flat.dtype, device=flat.device)
        pending.submit(Kind.ALLGATHER, as_bytes(flat), as_bytes(whole))
        if target is not None:
            pending.when_done(
                lambda: target.detach().copy_(xor_of(whole.chunk(self.size())).view(target.shape))
            )

    # Collectives that move data of any type.

    def broadcast(self, tensors: list[torch.Tensor], opts: Any = _BROADCAST) -> dist.Work:
        """Overwrite the tensors with the root's."""
        pending = Pending(self, tensors, opts)
        for tensor in tensors:
            flat = as_bytes(pending.in_place(tensor))
            pending.submit(Kind.BROADCAST, flat, flat, root=self._job_rank(opts.rootRank))
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
        pending = Pending(self, outputs, opts)
        for output, source in zip(outputs, inputs):
            if output.numel() != source.numel() * self.size():
                raise ValueError(
                    f"all_gather: the output has {output.numel()} elements, not "
                    f"{self.size()} times the input's {source.numel()}"
                )
            require_one_type("all_gather", source, [output])
            send = as_bytes(plain(source))
            if self._is_ascending:
                own_place = output.data_ptr() + self._group_rank * send.nbytes
                apart_from = None if send.data_ptr() == own_place else send
                target = pending.target(output, apart_from)
                pending.submit(Kind.ALLGATHER, send, as_bytes(target))
                continue
            whole = torch.empty(output.numel(), dtype=output.dtype, device=output.device)
            pending.submit(Kind.ALLGATHER, send, as_bytes(whole))
            ordered = self._members_order(list(whole.chunk(self.size())))
            pending.when_done(
                lambda output=output, ordered=ordered: output.detach().copy_(
                    torch.cat(ordered).view(output.shape)
                )
            )
        return pending.work()

    def allgather(
        self,
        outputs: list[list[torch.Tensor]],
        inputs: list[torch.Tensor],
        opts: Any = _ALLGATHER,
    ) -> dist.Work:
        """Give every rank a list of all ranks' tensors, whose shapes may differ."""
        pending = Pending(self, [tensor for parts in outputs for tensor in parts], opts)
        for parts, source in zip(outputs, inputs):
            require_one_each("all_gather", parts, self.size())
            require_one_type("all_gather", source, parts)
            whole = whole_of(parts, source)
            handle = pending.submit(Kind.ALLGATHER, as_bytes(plain(source)), as_bytes(whole))
            ordered = self._engine_order(parts)
            pending.expect("all_gather", handle, [part.nbytes for part in ordered])
            for piece, part in zip(split_like(whole, ordered), ordered):
                pending.copy_when_done(piece, part)
        return pending.work()

    def allgather_coalesced(
        self,
        outputs: list[list[torch.Tensor]],
        inputs: list[torch.Tensor],
        opts: Any = _ALLGATHER,
    ) -> dist.Work:
        """Give every rank a list of all ranks' lists of tensors."""
        require_one_each("all_gather_coalesced", outputs, self.size())
        return self.allgather([list(each) for each in zip(*outputs)], inputs, opts)

    def gather(
        self,
        outputs: list[list[torch.Tensor]],
        inputs: list[torch.Tensor],
        opts: Any = _GATHER,
    ) -> dist.Work:
        """Give the root a list of all ranks' tensors."""
        (source,) = inputs
        parts = outputs[0] if outputs else []
        require_member(opts.rootRank, self.size())
        is_root = opts.rootRank == self._group_rank
        if is_root:
            require_one_each("gather", parts, self.size())
            require_one_type("gather", source, parts)
        pending = Pending(self, parts, opts)
        send = as_bytes(plain(source))
        splits = [0] * self.size()
        splits[opts.rootRank] = send.numel()
        splits = self._engine_order(splits)
        whole = whole_of(parts if is_root else [], source)
        handle = pending.submit(Kind.ALLTOALL, send, as_bytes(whole), splits=splits)
        if is_root:
            ordered = self._engine_order(parts)
            pending.expect("gather", handle, [part.nbytes for part in ordered])
            for piece, part in zip(split_like(whole, ordered), ordered):
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
        require_member(opts.rootRank, self.size())
        splits = [0] * self.size()
        if opts.rootRank == self._group_rank:
            require_one_each("scatter", parts, self.size())
            require_one_type("scatter", output, parts)
            parts = self._engine_order(parts)
            splits = [part.numel() * part.element_size() for part in parts]
        pending = Pending(self, outputs, opts)
        nothing = torch.empty(0, dtype=torch.uint8, device=output.device)
        send = torch.cat([as_bytes(plain(part)) for part in parts] or [nothing])
        target = as_bytes(pending.target(output))
        handle = pending.submit(Kind.ALLTOALL, send, target, splits=splits)
        expected = [0] * self.size()
        expected[opts.rootRank] = output.nbytes
        pending.expect("scatter", handle, self._engine_order(expected))
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
        rows_in = rows_for_each("all_to_all", input_split_sizes, input, self.size())
        rows_out = rows_for_each("all_to_all", output_split_sizes, output, self.size())
        require_one_type("all_to_all", input, [output])
        if self._is_ascending:
            pending = Pending(self, [output], opts)
            send = as_bytes(plain(input))
            handle = pending.submit(
                Kind.ALLTOALL,
                send,
                as_bytes(pending.target(output, send)),
                splits=bytes_of_rows(rows_in, input),
            )
            pending.expect("all_to_all", handle, bytes_of_rows(rows_out, output))
            return pending.work()
        return self.alltoall(
            list(output.split(rows_out)), list(input.split(rows_in)), opts, [output]
        )

    def alltoall(
        self,
        outputs: list[torch.Tensor],
        inputs: list[torch.Tensor],
        opts: Any = _ALLTOALL,
        result: list[torch.Tensor] | None = None,
    ) -> dist.Work:
        """Send each rank one of `inputs`."""
        require_one_each("all_to_all", inputs, self.size())
        require_one_each("all_to_all", outputs, self.size())
        require_one_type("all_to_all", inputs[0], inputs, outputs)
        pending = Pending(self, result or outputs, opts)
        inputs, outputs = self._engine_order(inputs), self._engine_order(outputs)
        whole = whole_of(outputs, inputs[0])
        pieces = [as_bytes(plain(part)) for part in inputs]
        handle = pending.submit(
            Kind.ALLTOALL,
            torch.cat(pieces),
            as_bytes(whole),
            splits=[piece.numel() for piece in pieces],
        )
        pending.expect("all_to_all", handle, [output.nbytes for output in outputs])
        for piece, output in zip(split_like(whole, outputs), outputs):
            pending.copy_when_done(piece, output)
        return pending.work()

    def barrier(self, opts: Any = _BARRIER) -> dist.Work:
        """Complete when every rank has entered it."""
        pending = Pending(self, [], opts)
        # Only a barrier can be given a timeout of its own.
        if opts.timeout.total_seconds() > 0:
            pending.limit = opts.timeout.total_seconds()
        pending.submit(Kind.BARRIER, None)
        return pending.work()

    # Names that older versions of torch use.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def _next_name(self, signature: Hashable, taken: Sequence[str] = ()) -> str:
        """Return a name that is not among those `taken` by operations of the same call."""
        caller = self._completer.calling()
        with self._order:
            if caller is None:
                self._completer.last_place = self._naming.count + 1
            elif self._completer.last_place > caller.place:
                # Another rank may have completed that future before it came to this operation.
                raise RuntimeError(
                    f"group {self._name}: a callback of a future starts an operation, but another "
                    "one was started after that of the future, so the ranks may disagree about "
                    "their order; wait for the future first (with a communication hook of DDP: let "
                    "all gradients be in one bucket, by bucket_cap_mb)"
                )
            name = self._naming.name(signature, taken)
        earlier = self._in_flight.user_of(name)
        # All ranks have submitted the earlier operation, or will do so before they come to this
        # one.
        if earlier is not None:
            earlier.complete()
        return name

    def _can_run_now(self, tensor: torch.Tensor, opts: Any) -> bool:
        """Tell whether an operation on this tensor can be run before its function returns."""
        return (
            is_waited_for(opts)
            and tensor.is_cpu
            and tensor.layout is torch.strided
            and is_plain(tensor)
            and self._limit is None
            and self._coalesced is None
        )

    def _run_now(self, kind: Kind, tensor: torch.Tensor, **options: Any) -> None:
        """Submit an operation in place, and wait for it, in one native call."""
        name = self._next_name(signature_of(kind, tensor, options))
        engine.call(kind, tensor, tensor, name=name, process_set=self._process_set, **options)

    def _place_for(self, name: str, flat: torch.Tensor) -> torch.Tensor | None:
        """Return the shared memory in which to make the allreduce, or None."""
        if not self._staging.is_worth(flat):
            return None
        cycle = self._naming.cycle_of(name)
        return self._staging.place_for(name, cycle, flat) if cycle else None

    def _remember(self, names: Sequence[str], work: EngineWork) -> None:
        work.place = self._naming.count
        self._in_flight.add(work, names)
        if self._coalesced is not None:
            self._coalesced.append(work)

    def _forget_operations(self) -> None:
        """Let go of all memory but that of operations in flight; the group is not used again."""
        self._in_flight.leave_behind()
        self._staging = Staging()
