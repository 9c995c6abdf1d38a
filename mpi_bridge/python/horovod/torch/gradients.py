# SPDX-License-Identifier: Apache-2.0
"""Reduces gradients while the backward pass still computes others.

A hook on each parameter submits its gradient to the engine as soon as it is complete; synchronize()
submits the rest and waits. In the first step nothing is submitted before synchronize(), where the
ranks compare their parameters: a hook must not wait for other ranks, which may have to finish
something else before they come to their backward pass.

Gradients travel for the parameters that needed one on any rank in the step before. The script may
freeze and unfreeze parameters at any time. Every step, the ranks tell each other which parameters
need a gradient; those that are new are reduced at the end of the same step.

Gradients are reduced in the memory where autograd has put them. If the script asks for it, they get
memory of their own after the first step (see gradient_memory): side by side in the order in which
they arrived, so that the engine reduces whole buckets in place.

A gradient that a rank has not computed counts as zeros. One that no rank has computed stays absent,
as it would in a single process. A rank that has not computed one cannot know whether it is sparse;
until the ranks know of one that has it so, it travels as a dense one. For all this, three numbers
for each parameter travel with the gradients. If one is still zero after the reduction, it is zero
on all ranks.
"""

from __future__ import annotations

import threading
import weakref
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable

import torch

from mpi_bridge import MismatchError, Op, engine
from mpi_bridge.engine import Kind
from mpi_bridge.replicas import Checks

from ..common.agreement import require_same
from ..common.handles import finish_all
from ..common.process_sets import ProcessSet, has_other_ranks, number_of
from ..common.reduce_ops import ReduceOp
from . import sparse, tensors
from .compression import Compressor
from .gradient_memory import GradientMemory
from .placement import described_tensor
from .tensors import Place, Reduction

if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
    raise ImportError(f"horovod.torch needs PyTorch 2.1 or later, not {torch.__version__}")

_Finish = Callable[[], None]

_MORE_THAN_ANY = 1 << 40


class GradientReducer:
    """The gradients of some parameters, over the ranks of a process set.

    `names` and `groups`, the number of each parameter's group, must be the same on all ranks.
    """

    def __init__(
        self,
        names: dict[torch.Tensor, str],
        groups: dict[torch.Tensor, int],
        compression: Any,
        op: ReduceOp,
        predivide_factor: float,
        passes: int,
        sparse_as_dense: bool,
        process_set: ProcessSet,
        as_views: bool,
    ) -> None:
        self._names = dict(names)
        self._flags_name = f"gradients present.{next(iter(names.values()))}"
        self._groups = groups
        self._group_sizes: Counter[int] = Counter()  # of the gradients that travel
        self._compression = compression
        # Another compressor, written by the user, may do anything to a gradient.
        self._travels_by_type = isinstance(compression, type) and issubclass(
            compression, Compressor
        )
        self._reduction = Reduction(op, 1.0 / predivide_factor, predivide_factor)
        self._sparse_as_dense = sparse_as_dense
        self._process_set = process_set
        self._as_views = as_views
        self._passes = passes
        self._passes_left: dict[torch.Tensor, int] = {}
        self._lock = threading.RLock()
        self._computed: set[torch.Tensor] = set()  # by autograd, since the latest step
        self._held: dict[torch.Tensor, None] = {}  # complete, but not yet submitted; in order
        self._in_flight: dict[torch.Tensor, _Finish] = {}
        # The names of those whose gradients travel in each step; the same on all ranks.
        self._travelling: dict[torch.Tensor, str] = {}
        # Zeros travel for these; with the old gradient that a frozen parameter may have.
        self._absent: dict[torch.Tensor, torch.Tensor | None] = {}
        # The same on all ranks, but for the time between a shutdown() or a join and the next step.
        self._known_sparse: set[torch.Tensor] = set()
        self._memory: GradientMemory | None = None
        self._agreed = False  # on the present names
        self._began_in = engine.session_and_joins()
        self._has_met = False  # whether the ranks have compared their names since then
        self._hooks: dict[torch.Tensor, Any] = {}
        weakref.finalize(self, _remove_all, self._hooks)
        self._watch()

    def follow(self, names: dict[torch.Tensor, str]) -> None:
        """Reduce the gradients of these parameters from now on; all ranks must have the same."""
        with self._lock:
            if names.keys() != self._names.keys():
                for gone in self._hooks.keys() - names.keys():
                    self._hooks.pop(gone).remove()
                    del self._passes_left[gone]
                self._names = names
                self._agreed = False
                # Those that are gone travel once more, because others may wait for them.
                self._memory = None
            self._watch()

    def _watch(self) -> None:
        """Let autograd tell of the gradients of all parameters that need one by now."""
        # The reducer lives as long as its optimizer, not as long as the parameters.
        this = weakref.ref(self)

        def arrived(parameter: torch.Tensor) -> None:
            reducer = this()
            if reducer is not None:
                reducer._arrived(parameter)

        for parameter in self._names:
            if parameter.requires_grad and parameter not in self._hooks:
                self._passes_left[parameter] = self._passes
                self._hooks[parameter] = parameter.register_post_accumulate_grad_hook(arrived)

    @property
    def is_active(self) -> bool:
        """Whether there are other ranks to reduce with."""
        return has_other_ranks(self._process_set)

    @property
    def is_in_flight(self) -> bool:
        """Whether there are complete gradients that synchronize() has not yet reduced."""
        # Everything submitted before a shutdown() is lost with it, and a join ends the step.
        is_of_now = self._began_in == engine.session_and_joins()
        return is_of_now and bool(self._in_flight or self._held)

    def set_passes(self, passes: int) -> None:
        """Submit a gradient only after that many backward passes."""
        self._passes = passes
        self.count_passes_anew()

    def count_passes_anew(self) -> None:
        """Forget the backward passes since the latest step."""
        self._passes_left = dict.fromkeys(self._passes_left, self._passes)

    def _arrived(self, parameter: torch.Tensor) -> None:
        """Count a backward pass; autograd calls this when the gradient of the pass is complete."""
        if not self.is_active:
            return
        with self._lock:
            self._begin_anew_after_shutdown_or_join()
            if parameter in self._in_flight or parameter in self._held:
                raise AssertionError(
                    f"the gradient of {self._names[parameter]} was computed more than "
                    "backward_passes_per_step times before step() or synchronize(); "
                    "increase backward_passes_per_step to add up gradients on each rank first"
                )
            self._computed.add(parameter)
            self._passes_left[parameter] -= 1
            if self._passes_left[parameter] > 0:
                return
            if self._agreed and parameter in self._travelling:
                self._submit(parameter)
            else:
                self._held[parameter] = None

    def synchronize(self) -> None:
        """Collective: replace all gradients by their reduction."""
        if not self.is_active:
            return
        with self._lock:
            self._begin_anew_after_shutdown_or_join()
            try:
                self._drop_absent(self._reduce_all())
                if self._memory is None:
                    self._memory = self._make_memory()
            finally:
                self._forget_step()

    def _reduce_all(self) -> list[bool]:
        """Submit the rest, wait for all, and return which gradients any rank has."""
        if not self._has_met:
            self._agree()
            self._has_met = True
        flags: list[Callable[[], torch.Tensor]] = []
        failure = None
        try:
            self._submit_missing()
            flags.append(self._submit_flags())
        except Exception as error:
            failure = error
        sums = finish_all([*self._in_flight.values(), *flags], failure)[-1]
        told = (sums != 0).tolist()
        count = len(self._names)
        present, needed, is_sparse = (told[i * count : (i + 1) * count] for i in range(3))
        if told[-1]:
            self._agree()
        self._learn_sparse({p for p, is_one in zip(self._names, is_sparse) if is_one})
        self._forget_sparse(
            {p for p, *found in zip(self._names, present, is_sparse) if found == [True, False]}
        )
        travelling = {
            p: name for (p, name), is_needed in zip(self._names.items(), needed) if is_needed
        }
        if travelling.keys() != self._travelling.keys():
            self._set_travelling(travelling)
            self._reduce_new()
        return present

    def _learn_sparse(self, parameters: set[torch.Tensor]) -> None:
        """Let the gradients that any rank has as sparse ones travel so from now on."""
        new = parameters - self._known_sparse
        if not new:
            return
        self._known_sparse |= new
        self._count_groups(self._travelling)
        self._memory = None
        for parameter in new & self._in_flight.keys():
            if not parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_sparse(1)

    def _forget_sparse(self, parameters: set[torch.Tensor]) -> None:
        """Let the gradients that are dense on all ranks that have one travel as dense ones."""
        gone = parameters & self._known_sparse
        if not gone:
            return
        self._known_sparse -= gone
        self._count_groups(self._travelling)
        self._memory = None
        for parameter in gone & self._in_flight.keys():
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_dense()

    def _reduce_new(self) -> None:
        """Reduce the gradients that have not travelled in this step."""
        before, failure = set(self._in_flight), None
        new = [p for p in self._travelling if p not in before]
        self._count_groups(new)
        try:
            self._submit_missing()
        except Exception as error:
            failure = error
        finish_all([finish for p, finish in self._in_flight.items() if p not in before], failure)
        self._count_groups(self._travelling)

    def _submit_missing(self) -> None:
        for parameter in (*self._held, *self._travelling):
            if parameter in self._travelling and parameter not in self._in_flight:
                self._submit(parameter)

    def _set_travelling(self, names: dict[torch.Tensor, str]) -> None:
        self._travelling = names
        # Those that are gone have travelled for the last time.
        self._known_sparse.intersection_update(self._names)
        self._count_groups(self._travelling)
        self._memory = None

    def _count_groups(self, parameters: Iterable[torch.Tensor]) -> None:
        """Note how many members of each group travel, if these parameters do."""
        self._group_sizes = Counter(
            self._groups[p]
            for p in parameters
            if p in self._groups and (self._sparse_as_dense or p not in self._known_sparse)
        )

    def _begin_anew_after_shutdown_or_join(self) -> None:
        # A rank without data joins before its first step, and would agree alone in a later one.
        if self._began_in == engine.session_and_joins():
            return
        self._began_in = engine.session_and_joins()
        self._forget_step()
        self._set_travelling({})
        self._agreed = self._has_met = False

    def _forget_step(self) -> None:
        self._computed.clear()
        self._held.clear()
        self._in_flight.clear()
        self._absent.clear()
        self.count_passes_anew()

    def _needs_gradient(self, parameter: torch.Tensor) -> bool:
        """Tell whether this rank has something to reduce for the parameter."""
        # It may have been frozen after the backward pass. A gradient that an earlier step has
        # reduced, and that the script has not cleared, is the same on all ranks.
        return (
            parameter.requires_grad
            or parameter in self._computed
            or (parameter.grad is not None and parameter not in self._hooks)
        )

    def _submit(self, parameter: torch.Tensor) -> None:
        if parameter.grad is None or not self._needs_gradient(parameter):
            old = parameter.grad
            if old is not None and self._memory is not None and parameter in self._memory:
                old = old.clone()  # zeros will travel in its memory
            self._absent[parameter], parameter.grad = old, None
        gradient = parameter.grad
        is_known = parameter in self._known_sparse
        if gradient is None and is_known:
            gradient = _no_rows(parameter)
        if is_known and not self._sparse_as_dense:
            # It is dense if the script has also used the parameter in another way.
            gradient = gradient if gradient.is_sparse else gradient.to_sparse(1)
            self._in_flight[parameter] = self._submit_sparse(parameter, gradient)
            return
        if gradient is not None and gradient.is_sparse:
            self._in_flight[parameter] = self._submit_as_dense(parameter, gradient)
            return
        if self._memory is not None and parameter in self._memory:
            self._in_flight[parameter] = self._memory.submit(parameter)
        else:
            self._in_flight[parameter] = self._submit_alone(parameter)

    def _agree(self) -> None:
        """Check, before anything is submitted under these names, that all ranks have the same ones.

        This uses allreduces, because a rank that has joined takes part in those.
        """
        described = ", ".join(
            f"{name}:{described_tensor(parameter)}" for parameter, name in self._names.items()
        )
        values = torch.tensor([zlib.crc32(described.encode()) + 1, self._passes])
        # The zeros of a rank that has joined change no maximum.
        numbers = torch.cat([values, _MORE_THAN_ANY - values])
        number = number_of(self._process_set)
        engine.call(
            Kind.ALLREDUCE,
            numbers,
            numbers,
            op=Op.MAX,
            name="parameters of DistributedOptimizer",
            process_set=number,
        )
        if (numbers[:2] + numbers[2:] != _MORE_THAN_ANY).any():
            require_same("the parameters of DistributedOptimizer", described, number)
            raise MismatchError("ranks have different backward_passes_per_step")
        Checks("DistributedOptimizer", number).require_same_interval()
        self._agreed = True

    def _place(self, parameter: torch.Tensor) -> Place:
        group = self._groups.get(parameter)
        return Place(
            f"gradient.{self._travelling[parameter]}",
            self._process_set,
            None if group is None else f"gradients.{group}",
            0 if group is None else self._group_sizes[group],
        )

    def _submit_sparse(self, parameter: torch.Tensor, gradient: torch.Tensor) -> _Finish:
        place = Place(f"gradient.{self._travelling[parameter]}", self._process_set)
        compressed, context = self._compression.compress(gradient)
        pending = sparse.begin(compressed, self._reduction.op, place)

        def finish() -> None:
            _deliver(parameter, self._compression.decompress(pending.finish(), context))

        return finish

    def _submit_as_dense(self, parameter: torch.Tensor, gradient: torch.Tensor) -> _Finish:
        """Reduce a sparse gradient as a dense one, and make the result sparse again.

        An optimizer such as SparseAdam accepts only sparse gradients.
        """
        compressed, context = self._compression.compress(gradient.to_dense())
        pending = tensors.allreduce(compressed, compressed, self._reduction, self._place(parameter))

        def finish() -> None:
            reduced = self._compression.decompress(pending.finish(), context)
            _deliver(parameter, reduced.to_sparse(gradient.sparse_dim()))

        return finish

    def _submit_alone(self, parameter: torch.Tensor) -> _Finish:
        """Reduce the gradient in its own memory, or in that of its compressed form."""
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        gradient = parameter.grad
        compressed, context = self._compression.compress(gradient)
        pending = tensors.allreduce(compressed, compressed, self._reduction, self._place(parameter))

        def finish() -> None:
            _deliver(parameter, self._compression.decompress(pending.finish(), context))

        return finish

    def _make_memory(self) -> GradientMemory | None:
        """Make the memory, after the first step, when the order of arrival is known."""
        if not self._as_views or not self._travels_by_type:
            return None
        dense = [
            p for p in self._in_flight if p in self._travelling and p not in self._known_sparse
        ]
        return GradientMemory(
            dense,
            self._flags(),
            self._compression,
            self._reduction,
            self._place,
            self._place_of_flags(),
        )

    def _flags(self) -> torch.Tensor:
        """Return 1 for each parameter that has a gradient here, needs one, or has a sparse one.

        The last flag says that the parameters are others than those that the ranks have compared.

        The flags have the type of the first gradient that travels, which usually arrives last, so
        that they share its bucket. They do not follow the actual last arrival, which may differ
        between ranks. They are in host memory even if the gradients are not, because the host reads
        them.
        """
        first = next(iter(self._travelling), None)
        dtype = torch.float32 if first is None else first.dtype
        if self._travels_by_type:
            dtype = self._compression.travels_as(dtype)
        needed = [p.requires_grad or self._needs_gradient(p) for p in self._names]
        present = [
            p not in self._absent if p in self._travelling else is_needed and p.grad is not None
            for p, is_needed in zip(self._names, needed)
        ]
        is_sparse = [p.grad is not None and p.grad.is_sparse for p in self._names]
        flags = [*present, *needed, *is_sparse, not self._agreed]
        return torch.tensor([float(flag) for flag in flags], dtype=dtype)

    def _place_of_flags(self) -> Place:
        return Place(self._flags_name, self._process_set)

    def _submit_flags(self) -> Callable[[], torch.Tensor]:
        flags = self._flags()
        if self._memory is not None:
            return self._memory.submit_flags(flags)
        place = self._place_of_flags()
        return tensors.allreduce(flags, flags, self._reduction, place).finish

    def _drop_absent(self, present: Sequence[bool]) -> None:
        for parameter, is_present in zip(self._names, present):
            if not is_present and parameter in self._absent:
                parameter.grad = self._absent[parameter]


def _no_rows(parameter: torch.Tensor) -> torch.Tensor:
    """Return the sparse gradient of a parameter that took no part in the step."""
    indices = torch.empty((1, 0), dtype=torch.int64, device=parameter.device)
    values = torch.empty((0, *parameter.shape[1:]), dtype=parameter.dtype, device=parameter.device)
    return torch.sparse_coo_tensor(indices, values, parameter.shape, check_invariants=False)


def _deliver(parameter: torch.Tensor, reduced: torch.Tensor) -> None:
    """Make a result the parameter's gradient, in the tensor that the script has as its gradient.

    It may not be the tensor that was submitted: the script may have replaced it meanwhile, or set
    it to None. The optimizer must step on the reduced values even then, or ranks diverge.
    """
    gradient = parameter.grad
    if gradient is reduced:
        return
    if gradient is None or gradient.layout != reduced.layout:
        parameter.grad = reduced.to(parameter.dtype)
        return
    with torch.no_grad():
        if reduced.is_sparse:
            gradient.zero_().add_(reduced)
        else:
            gradient.copy_(reduced)


def _remove_all(hooks: Mapping[torch.Tensor, Any]) -> None:
    for hook in hooks.values():
        hook.remove()
