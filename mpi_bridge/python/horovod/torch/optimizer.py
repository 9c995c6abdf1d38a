# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: any torch optimizer that steps on gradients reduced over all ranks."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable

import torch

from ..common import reduce_ops
from ..common.process_sets import ProcessSet, global_process_set
from ..common.reduce_ops import Adasum, Average, Sum
from ..common.unsupported import not_supported
from ..common.util import split_list
from .adasum_optimizer import AdasumMixin
from .compression import Compression
from .gradients import GradientReducer
from .wrapped import WrappedMixin, made_of, made_up_names


class _DistributedMixin(WrappedMixin):
    """Reduces the gradients before each step."""

    _reducer: GradientReducer
    _should_synchronize: bool
    _synchronized: bool

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Reduce gradients only after that many backward passes."""
        _require_positive_passes(passes)
        self._reducer.set_passes(passes)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state; the backward passes before the next step are counted anew."""
        self._reducer.count_passes_anew()
        super().load_state_dict(state_dict)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters; all ranks must add the same."""
        super().add_param_group(param_group)
        self._reducer.follow(self._current_names())

    def synchronize(self) -> None:
        """Collective: wait until all gradients are reduced over all ranks."""
        # A script may have changed the parameters in other ways than by add_param_group().
        self._reducer.follow(self._current_names())
        self._reducer.synchronize()
        self._synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Let step() use the gradients as they are, after the script has called synchronize()."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Collective: wait for the reduced gradients, then take the optimizer's own step."""
        if self._should_synchronize:
            closure = self._synchronized_before_step(closure)
        result = super().step() if closure is None else super().step(closure)
        self._synchronized = False
        self._has_stepped()
        return result

    def _synchronized_before_step(
        self, closure: Callable[[], Any] | None
    ) -> Callable[[], Any] | None:
        """Synchronize, or return a closure that does."""
        if closure is not None:

            def closure_on_all_ranks() -> Any:
                loss = closure()
                self.synchronize()
                return loss

            return closure_on_all_ranks
        if self._synchronized:
            # Scripts suppress this warning by the first sentence of Horovod's text.
            warnings.warn(
                "optimizer.step() called without optimizer.skip_synchronize() context after "
                "optimizer.synchronize(). The gradients are reduced a second time; call step() "
                "inside `with optimizer.skip_synchronize():`",
                stacklevel=3,
            )
        self.synchronize()
        return None

    # torch wraps the step() of every class that lacks this mark with its own profiling and hooks.
    # The user's class, which comes after this one, has them already.
    step.hooked = True

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients; refused while they are being reduced."""
        if self._reducer.is_in_flight:
            raise AssertionError(
                "zero_grad() was called after backward() and before step() or synchronize(): "
                "the gradients are being reduced"
            )
        self._synchronized = False
        super().zero_grad(set_to_none=set_to_none)


def _require_positive_passes(passes: int) -> None:
    if passes < 1:
        raise ValueError(f"backward_passes_per_step must be at least 1, not {passes}")


def _names_of(
    optimizer: torch.optim.Optimizer,
    pairs: Sequence[tuple[str, torch.Tensor]] | None,
) -> dict[torch.Tensor, str]:
    """Return the name of each of the optimizer's parameters, in their order."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if pairs is None:
        return made_up_names(parameters)
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise ValueError(
            "named_parameters must be pairs of name and parameter: model.named_parameters()"
        )
    names = [name for name, _ in pairs]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise ValueError(f"named_parameters has these names more than once: {duplicates}")
    by_parameter = {parameter: name for name, parameter in pairs}
    unnamed = [
        f"parameter {number} of group {group_number}, of shape {tuple(p.shape)}"
        for group_number, group in enumerate(optimizer.param_groups)
        for number, p in enumerate(group["params"])
        if p not in by_parameter
    ]
    if unnamed:
        raise ValueError(
            f"named_parameters does not name {len(unnamed)} of the optimizer's parameters "
            f"({'; '.join(unnamed[:5])}{'; ...' if len(unnamed) > 5 else ''}); "
            "pass model.named_parameters() of the whole model, or leave it out"
        )
    return {p: by_parameter[p] for p in parameters}


def _groups_of(
    names: dict[torch.Tensor, str], groups: int | Sequence[Sequence[torch.Tensor]] | None
) -> dict[torch.Tensor, int]:
    """Return the number of each parameter's group; in no group is what a number leaves frozen."""
    if groups is None or groups == 0:
        return {}
    if isinstance(groups, int):
        if groups < 0:
            raise ValueError(f"groups must be a number of groups > 0, not {groups}")
        parameters = [p for p in names if p.requires_grad]
        lists = split_list(parameters, min(groups, max(len(parameters), 1)))
    else:
        lists = [list(members) for members in groups]
        grouped = [p for members in lists for p in members]
        if len(set(grouped)) != len(grouped):
            raise ValueError("groups: a parameter is in two groups")
        if any(p.requires_grad and p not in names for p in grouped):
            raise ValueError("groups: a parameter is not one of the optimizer's")
    return {p: number for number, members in enumerate(lists) for p in members}


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[torch.Tensor]] | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
    gradient_as_bucket_view: bool = False,
) -> torch.optim.Optimizer:
    """Return an optimizer of a subclass of `optimizer`'s class that steps on reduced gradients.

    It shares the parameters and the state of `optimizer`. Each gradient is submitted as soon as
    backward has computed it, or after `backward_passes_per_step` backward passes. `groups` (a
    number, or lists of parameters) makes the gradients of a group travel together. `op` is Average,
    Sum or Adasum. On ranks outside of `process_set` it does the same as `optimizer`.

    Parameters may be frozen, unfrozen, added or replaced between steps, and the next step reduces
    what it has to. All ranks must have the same parameters.

    Horovod has no counterpart to `gradient_as_bucket_view`: with it, the gradients' memory is kept
    from step to step, so that they are reduced in place. A reference to a gradient then sees the
    values of later steps, and a saved gradient includes the memory of all others; the script must
    be able to cope with both.
    """
    _require_positive_passes(backward_passes_per_step)
    chosen = reduce_ops.resolve(op, allow_adasum=True)
    if chosen not in (Average, Sum, Adasum):
        raise ValueError(f"DistributedOptimizer reduces with Average, Sum or Adasum, not {op!r}")
    if gradient_predivide_factor != 1.0 and chosen is not Average:
        raise ValueError("gradient_predivide_factor needs op=Average")
    if not (hasattr(compression, "compress") and hasattr(compression, "decompress")):
        raise TypeError("compression must have compress() and decompress()")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise not_supported(
            "LBFGS in DistributedOptimizer", "its line search would differ between ranks"
        )
    if num_groups:
        warnings.warn("num_groups is deprecated; pass groups", DeprecationWarning, stacklevel=2)
        groups = groups if groups is not None else num_groups
    pairs = None if named_parameters is None else list(named_parameters)
    names = _names_of(optimizer, pairs)
    # Scripts written for Horovod look up names in _parameter_names, including those of parameters
    # that the optimizer does not have.
    all_names = {parameter: name for name, parameter in pairs or ()} | names
    members = _groups_of(names, groups)
    if chosen is Adasum:
        distributed = made_of(AdasumMixin, optimizer)
        distributed._parameter_names = all_names
        distributed._start(compression, process_set)
        return distributed
    distributed = made_of(_DistributedMixin, optimizer)
    distributed._parameter_names = all_names
    distributed._reducer = GradientReducer(
        names,
        members,
        compression,
        chosen,
        gradient_predivide_factor,
        backward_passes_per_step,
        sparse_as_dense,
        process_set,
        gradient_as_bucket_view,
    )
    distributed._process_set = process_set
    distributed._should_synchronize = True
    distributed._synchronized = False
    return distributed
