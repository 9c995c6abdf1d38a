# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: any torch optimizer, stepping on gradients averaged over all ranks."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Callable

import torch

from ..common import reduce_ops
from ..common.process_sets import global_process_set, require_global
from ..common.reduce_ops import Average, ReduceOp, Sum
from ..common.unsupported import not_supported
from .compression import Compression, Compressor
from .fusion import FusedAllreduce


class _GradientReducer:
    """Replaces the gradients of parameters by their reduction over all ranks."""

    def __init__(
        self,
        names: dict[torch.Tensor, str],
        compression: type[Compressor],
        op: ReduceOp,
        predivide_factor: float,
        sparse_as_dense: bool,
    ) -> None:
        self._names = names
        self._compression = compression
        self._op = op
        self._predivide_factor = predivide_factor
        self._sparse_as_dense = sparse_as_dense
        self._planned_for: tuple[Any, ...] | None = None
        self._fused: FusedAllreduce | None = None

    def reduce(self, parameters: list[torch.Tensor]) -> None:
        if not parameters:
            return
        gradients = [self._dense(parameter) for parameter in parameters]
        reduced = self._plan(parameters)(gradients)
        for parameter, gradient in zip(parameters, reduced):
            if gradient is None:
                continue
            if parameter.grad is None or parameter.grad.is_sparse:
                parameter.grad = torch.empty_like(parameter)
            parameter.grad.copy_(gradient)

    def _plan(self, parameters: list[torch.Tensor]) -> FusedAllreduce:
        key = tuple((id(parameter), parameter.dtype) for parameter in parameters)
        if self._fused is None or self._planned_for != key:
            described = [
                (
                    self._names.get(parameter, f"parameter.{position}"),
                    parameter.shape,
                    parameter.dtype,
                )
                for position, parameter in enumerate(parameters)
            ]
            self._fused = FusedAllreduce(
                described, self._compression.travels_as, self._op, self._predivide_factor
            )
            self._planned_for = key
        return self._fused

    def _dense(self, parameter: torch.Tensor) -> torch.Tensor | None:
        gradient = parameter.grad
        if gradient is None or not gradient.is_sparse:
            return gradient
        if not self._sparse_as_dense:
            name = self._names.get(parameter, "a parameter")
            raise not_supported(
                f"the sparse gradient of {name}",
                "pass sparse_as_dense=True to DistributedOptimizer",
            )
        return gradient.to_dense()


class _DistributedMixin:
    """Comes before the user's optimizer class in the class that DistributedOptimizer makes."""

    _reducer: _GradientReducer
    _wrapped: torch.optim.Optimizer
    _should_synchronize: bool
    _synchronized: bool

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Accept the number of backward passes; gradients are reduced once, at step()."""
        _require_positive_passes(passes)

    def synchronize(self) -> None:
        """Collective: replace all gradients by their reduction over all ranks."""
        self._reducer.reduce(
            [
                parameter
                for group in self.param_groups
                for parameter in group["params"]
                if parameter.requires_grad
            ]
        )
        self._synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Let step() use the gradients as they are, after a synchronize() by hand."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Collective: reduce the gradients, then take the optimizer's own step."""
        if not self._should_synchronize:
            self._synchronized = False
            return super().step(closure)
        if closure is not None:

            def closure_on_all_ranks() -> Any:
                loss = closure()
                self.synchronize()
                return loss

            result = super().step(closure_on_all_ranks)
        else:
            if self._synchronized:
                warnings.warn(
                    "step() after synchronize() reduces the gradients a second time; "
                    "call step() inside `with optimizer.skip_synchronize():`",
                    stacklevel=2,
                )
            self.synchronize()
            result = super().step()
        self._synchronized = False
        # A learning-rate scheduler made before looks here whether a step was taken.
        self._wrapped._opt_called = True
        return result

    # torch wraps the step() of every class that lacks this mark with its own profiling and hooks;
    # the user's class below has them already.
    step.hooked = True

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients."""
        self._synchronized = False
        super().zero_grad(set_to_none=set_to_none)


def _require_positive_passes(passes: int) -> None:
    if passes < 1:
        raise ValueError(f"backward_passes_per_step must be at least 1, not {passes}")


def _names_of(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None,
) -> dict[torch.Tensor, str]:
    if named_parameters is None:
        return {}
    pairs = list(named_parameters)
    names = [name for name, _ in pairs]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise ValueError(f"named_parameters has these names more than once: {duplicates}")
    by_parameter = {parameter: name for name, parameter in pairs}
    unnamed = sum(
        parameter not in by_parameter
        for group in optimizer.param_groups
        for parameter in group["params"]
    )
    if unnamed:
        raise ValueError(
            f"named_parameters names no {unnamed} of the optimizer's parameters; "
            "pass model.named_parameters() of the whole model, or leave it out"
        )
    return by_parameter


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    sparse_as_dense: bool = False,
    process_set: Any = global_process_set,
) -> torch.optim.Optimizer:
    """Return an optimizer of a subclass of `optimizer`'s class that reduces gradients at step().

    It shares the parameters and the state of `optimizer`. Gradients travel in few large messages,
    in the order of the parameter groups. They are reduced once at step(), however many backward
    passes came before it.
    """
    require_global(process_set)
    _require_positive_passes(backward_passes_per_step)
    if num_groups or groups is not None:
        raise not_supported(
            "DistributedOptimizer(groups=...)", "leave it out; all gradients are fused already"
        )
    chosen = reduce_ops.resolve(op)
    if chosen not in (Average, Sum):
        raise ValueError(f"DistributedOptimizer reduces with Average or Sum, not {chosen.name}")
    if gradient_predivide_factor != 1.0 and chosen is not Average:
        raise ValueError("gradient_predivide_factor needs op=Average")
    if not (isinstance(compression, type) and issubclass(compression, Compressor)):
        raise not_supported("a compressor of your own", "use Compression.none, fp16 or bf16")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise not_supported(
            "LBFGS in DistributedOptimizer", "its line search would differ between ranks"
        )
    base = type(optimizer)
    subclass = type(base.__name__, (_DistributedMixin, base), {"__module__": base.__module__})
    distributed = subclass.__new__(subclass)
    # A learning-rate scheduler may have put its own step() on the instance; it would hide ours.
    distributed.__dict__.update(
        (name, value) for name, value in vars(optimizer).items() if name != "step"
    )
    distributed._reducer = _GradientReducer(
        _names_of(optimizer, named_parameters),
        compression,
        chosen,
        gradient_predivide_factor,
        sparse_as_dense,
    )
    distributed._wrapped = optimizer
    distributed._should_synchronize = True
    distributed._synchronized = False
    return distributed
