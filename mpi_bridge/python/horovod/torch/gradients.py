# SPDX-License-Identifier: Apache-2.0
"""Reduces gradients while the backward pass still computes others.

A hook on each parameter submits its gradient to the engine as soon as it is complete; synchronize()
submits the rest and waits. In the first step nothing is submitted before synchronize(), where the
ranks compare their parameters: a hook must not wait for other ranks, which may have to finish
something else before they come to their backward pass.

Gradients are reduced in the memory where autograd has put them. If the script asks for it, they get
memory of their own after the first step (see gradient_memory): side by side in the order in which
they arrived, so that the engine reduces whole buckets in place.

A gradient that a rank has not computed counts as zeros. One that no rank has computed stays absent,
as it would in a single process. For this, one number for each gradient travels with the gradients;
if it is still zero after the reduction, no rank has the gradient.
"""

from __future__ import annotations

import threading
import weakref
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Callable

import torch

from mpi_bridge import MismatchError, Op, engine, world
from mpi_bridge.engine import Kind

from ..common.agreement import require_same
from ..common.handles import finish_all
from ..common.process_sets import ProcessSet, number_of
from ..common.reduce_ops import ReduceOp
from . import sparse, tensors
from .compression import Compressor
from .gradient_memory import GradientMemory
from .placement import described_tensor
from .tensors import Place, Reduction

if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
    raise ImportError(f"horovod.torch needs PyTorch 2.1 or later, not {torch.__version__}")

_Finish = Callable[[], None]


class GradientReducer:
    """The gradients of some parameters, over the ranks of a process set.

    `names` and `groups` must be the same on all ranks; a parameter's group is its number and the
    number of members.
    """

    def __init__(
        self,
        names: dict[torch.Tensor, str],
        groups: dict[torch.Tensor, tuple[int, int]],
        compression: Any,
        op: ReduceOp,
        predivide_factor: float,
        passes: int,
        sparse_as_dense: bool,
        process_set: ProcessSet,
        as_views: bool,
    ) -> None:
        self._names: dict[torch.Tensor, str] = {}
        self._groups = groups
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
        self._held: dict[torch.Tensor, None] = {}  # complete, but not yet submitted; in order
        self._in_flight: dict[torch.Tensor, _Finish] = {}
        self._absent: set[torch.Tensor] = set()
        self._known_sparse: set[torch.Tensor] = set()
        self._memory: GradientMemory | None = None
        self._agreed = False
        self._session = world.session()
        self._hooks: list[Any] = []
        weakref.finalize(self, _remove_all, self._hooks)
        self.add(names)

    def add(self, names: dict[torch.Tensor, str]) -> None:
        """Add further parameters, except those that need no gradient."""
        new = {p: name for p, name in names.items() if p.requires_grad and p not in self._names}
        if not new:
            return
        self._names.update(new)
        self._agreed = False
        self._memory = None
        # The reducer lives as long as its optimizer, not as long as the parameters.
        this = weakref.ref(self)

        def arrived(parameter: torch.Tensor) -> None:
            reducer = this()
            if reducer is not None:
                reducer._arrived(parameter)

        for parameter in new:
            self._passes_left[parameter] = self._passes
            self._hooks.append(parameter.register_post_accumulate_grad_hook(arrived))

    @property
    def is_active(self) -> bool:
        """Whether there are other ranks to reduce with."""
        return bool(self._process_set.included()) and self._process_set.size() > 1

    @property
    def is_in_flight(self) -> bool:
        """Whether there are complete gradients that synchronize() has not yet reduced."""
        # Everything submitted before a shutdown() is lost with it.
        return self._session == world.session() and bool(self._in_flight or self._held)

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
            self._begin_anew_after_shutdown()
            if parameter in self._in_flight or parameter in self._held:
                raise AssertionError(
                    f"the gradient of {self._names[parameter]} was computed more than "
                    "backward_passes_per_step times before step() or synchronize(); "
                    "increase backward_passes_per_step to add up gradients on each rank first"
                )
            self._passes_left[parameter] -= 1
            if self._passes_left[parameter] > 0:
                return
            if self._agreed:
                self._submit(parameter)
            else:
                self._held[parameter] = None

    def synchronize(self) -> None:
        """Collective: replace all gradients by their reduction."""
        if not self.is_active:
            return
        with self._lock:
            self._begin_anew_after_shutdown()
            try:
                presence = self._reduce_all()
                self._drop_absent((presence != 0).tolist())
                if self._memory is None:
                    self._memory = self._make_memory()
            finally:
                self._held.clear()
                self._in_flight.clear()
                self._absent.clear()
                self.count_passes_anew()

    def _reduce_all(self) -> torch.Tensor:
        """Submit the rest, wait for all, and return how many ranks have which gradient."""
        failure = None
        flags: list[Callable[[], torch.Tensor]] = []
        try:
            self._agree()
            for parameter in (*self._held, *self._names):
                if parameter not in self._in_flight and parameter.requires_grad:
                    self._submit(parameter)
            flags.append(self._submit_flags())
        except Exception as error:
            failure = error
        return finish_all([*self._in_flight.values(), *flags], failure)[-1]

    def _begin_anew_after_shutdown(self) -> None:
        if self._session == world.session():
            return
        self._session = world.session()
        self._held.clear()
        self._in_flight.clear()
        self._absent.clear()
        self.count_passes_anew()
        self._memory, self._agreed = None, False

    def _submit(self, parameter: torch.Tensor) -> None:
        gradient = parameter.grad
        if gradient is None and parameter in self._known_sparse:
            gradient = _no_rows(parameter)
            self._absent.add(parameter)
        if gradient is not None and gradient.is_sparse:
            self._known_sparse.add(parameter)
            submit = self._submit_as_dense if self._sparse_as_dense else self._submit_sparse
            self._in_flight[parameter] = submit(parameter, gradient)
            return
        if gradient is None:
            self._absent.add(parameter)
        if self._memory is not None and parameter in self._memory:
            self._in_flight[parameter] = self._memory.submit(parameter)
        else:
            self._in_flight[parameter] = self._submit_alone(parameter)

    def _agree(self) -> None:
        """Check, before anything is submitted under these names, that all ranks have the same ones.

        This uses allreduces, because a rank that has joined takes part in those.
        """
        if self._agreed:
            return
        described = ", ".join(
            f"{name}:{described_tensor(parameter)}" for parameter, name in self._names.items()
        )
        digest = zlib.crc32(described.encode())
        numbers = torch.tensor([digest, -digest, self._passes, -self._passes])
        number = number_of(self._process_set)
        engine.call(Kind.ALLREDUCE, numbers, numbers, op=Op.MAX, process_set=number)
        if numbers[0] != -numbers[1] or numbers[2] != -numbers[3]:
            require_same("the parameters of DistributedOptimizer", described, number)
            raise MismatchError("ranks have different backward_passes_per_step")
        self._agreed = True

    def _place(self, parameter: torch.Tensor) -> Place:
        group, count = self._groups.get(parameter, (None, 0))
        return Place(
            f"gradient.{self._names[parameter]}",
            self._process_set,
            None if group is None else f"gradients.{group}",
            count,
        )

    def _submit_sparse(self, parameter: torch.Tensor, gradient: torch.Tensor) -> _Finish:
        place = Place(f"gradient.{self._names[parameter]}", self._process_set)
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
        dense = [p for p in self._in_flight if p not in self._known_sparse]
        return GradientMemory(
            dense,
            self._flags(),
            self._compression,
            self._reduction,
            self._place,
            self._place_of_flags(),
        )

    def _flags(self) -> torch.Tensor:
        """Return 1 for each parameter that has a gradient here.

        The flags have the type of the first parameter, whose gradient usually arrives last, so that
        they share its bucket. They do not follow the actual last arrival, which may differ between
        ranks. They are in host memory even if the gradients are not, because the host reads them.
        """
        dtype = next(iter(self._names)).dtype
        if self._travels_by_type:
            dtype = self._compression.travels_as(dtype)
        return torch.tensor([float(p not in self._absent) for p in self._names], dtype=dtype)

    def _place_of_flags(self) -> Place:
        return Place(f"gradients present.{next(iter(self._names.values()))}", self._process_set)

    def _submit_flags(self) -> Callable[[], torch.Tensor]:
        flags = self._flags()
        if self._memory is not None:
            return self._memory.submit_flags(flags)
        place = self._place_of_flags()
        return tensors.allreduce(flags, flags, self._reduction, place).finish

    def _drop_absent(self, present: Sequence[bool]) -> None:
        for parameter, is_present in zip(self._names, present):
            if not is_present and parameter in self._absent:
                parameter.grad = None


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


def _remove_all(hooks: Iterable[Any]) -> None:
    for hook in hooks:
        hook.remove()
