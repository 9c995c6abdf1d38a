# SPDX-License-Identifier: Apache-2.0
"""What a distributed optimizer has in common with the optimizer from which it was made."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import torch

from mpi_bridge import torch_replicas
from mpi_bridge.replicas import Checks

from ..common.process_sets import ProcessSet, has_other_ranks, number_of

_unnamed = itertools.count()


def made_up_names(parameters: Iterable[torch.Tensor]) -> dict[torch.Tensor, str]:
    """Return names for parameters that the script has not named; the same on all ranks."""
    # Two optimizers without names must not use the same names for different parameters.
    base = f"optimizer.{next(_unnamed)}"
    return {parameter: f"{base}.{number}" for number, parameter in enumerate(parameters)}


class WrappedMixin:
    """Precedes the user's optimizer class among the bases made by DistributedOptimizer.

    The parameters and the state are those of the user's optimizer at any time, also after either
    has loaded another state. So a learning-rate scheduler may have been made for either.
    """

    _wrapped: torch.optim.Optimizer
    _parameter_names: dict[torch.Tensor, str]
    _process_set: ProcessSet
    _replicas: Checks | None = None
    _added_names: Mapping[torch.Tensor, str] = {}  # of present parameters; made up

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The parameters with their settings."""
        return self._wrapped.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self._wrapped.param_groups = groups

    @property
    def state(self) -> dict[Any, Any]:
        """What the optimizer knows of each parameter."""
        return self._wrapped.state

    @state.setter
    def state(self, state: dict[Any, Any]) -> None:
        self._wrapped.state = state

    def __setstate__(self, state: dict[str, Any]) -> None:
        # torch updates the instance's dictionary, which would leave the wrapped one as it is.
        state = dict(state)
        for name in ("state", "param_groups"):
            if name in state:
                setattr(self, name, state.pop(name))
        super().__setstate__(state)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "an optimizer made by DistributedOptimizer can be neither copied nor pickled: the copy "
            "would not be the one that trains; save its state_dict()"
        )

    def _current_names(self) -> dict[torch.Tensor, str]:
        """Return the present parameters with their names; what has no name yet gets one."""
        parameters = [p for group in self.param_groups for p in group["params"]]
        added = [p for p in parameters if p not in self._parameter_names]
        unnamed = [p for p in added if p not in self._added_names]
        made_up = made_up_names(unnamed) if unnamed else {}
        # Those that the script has replaced are forgotten, so that their memory is released.
        self._added_names = {p: made_up[p] if p in made_up else self._added_names[p] for p in added}
        return {
            p: self._added_names[p] if p in self._added_names else self._parameter_names[p]
            for p in parameters
        }

    def _has_stepped(self) -> None:
        """Collective: do what follows each step."""
        # A learning-rate scheduler made before checks this mark for whether a step was taken.
        self._wrapped._opt_called = True
        if not has_other_ranks(self._process_set):
            return
        if self._replicas is None:
            what = f"DistributedOptimizer of {next(iter(self._current_names().values()))}"
            self._replicas = Checks(what, number_of(self._process_set))
        if self._replicas.is_due():
            torch_replicas.compare(self._replicas, self._current_names())


def made_of(mixin: type[WrappedMixin], optimizer: torch.optim.Optimizer) -> Any:
    """Return an object whose class has the mixin before the optimizer's own class."""
    base = type(optimizer)
    subclass = type(base.__name__, (mixin, base), {"__module__": base.__module__})
    distributed = subclass.__new__(subclass)
    # A learning-rate scheduler may have put its own step() on the instance, where it would hide
    # ours.
    others = {"step", "state", "param_groups"}
    distributed.__dict__.update(
        (name, value) for name, value in vars(optimizer).items() if name not in others
    )
    distributed._wrapped = optimizer
    return distributed
