# SPDX-License-Identifier: Apache-2.0
"""The options of all distributed optimizers and tapes, checked in one place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..common import reduce_ops
from ..common.process_sets import ProcessSet, global_process_set, has_other_ranks, number_of
from ..common.reduce_ops import Adasum, Average, ReduceOp, Sum
from ..common.unsupported import not_supported
from .exchange import Exchange, Member, Settings, exchange_for, label_for
from .fusion_threshold import fusion_threshold


@dataclass(frozen=True)
class GradientSettings:
    """How gradients are reduced."""

    compression: Any
    op: ReduceOp = Average
    predivide_factor: float = 1.0
    sparse_as_dense: bool = False
    # A number of equal groups, or groups of variables.
    groups: int | tuple[tuple[Any, ...], ...] | None = None
    process_set: ProcessSet = global_process_set

    def is_needed(self) -> bool:
        """Tell whether there are other ranks to reduce with.

        A graph may keep the answer: while a process lives, the ranks only become fewer, and a
        reduction without others changes nothing.
        """
        return has_other_ranks(self.process_set)

    def exchange(
        self, kind: str, variables: Sequence[Any], is_sparse: Sequence[bool] | None = None
    ) -> Exchange:
        """Return the exchange for the gradients of these variables.

        `kind` says what the gradients belong to, such as "DistributedOptimizer".
        """
        names = names_on_all_ranks(variables)
        sparse = is_sparse or [False] * len(names)
        members = tuple(Member(name, flag) for name, flag in zip(names, sparse))
        dense = [variable for variable, flag in zip(variables, sparse) if not flag]
        settings = self._for_exchange(dense)
        # Two models may have the same layers in different places.
        label = label_for(kind, names_of(variables), settings.process_set)
        return exchange_for(label, members, settings)

    def _for_exchange(self, variables: Sequence[Any]) -> Settings:
        return Settings(
            op=reduce_ops.native(self.op),
            prescale=1.0 / self.predivide_factor,
            postscale=self.predivide_factor,
            process_set=number_of(self.process_set),
            groups=self._positions(variables),
            threshold=fusion_threshold(),
        )

    def _positions(self, variables: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
        if self.groups is None:
            return ()
        if isinstance(self.groups, int):
            count = min(self.groups, len(variables))
            bounds = [len(variables) * i // count for i in range(count + 1)] if count else [0]
            return tuple(tuple(range(*ends)) for ends in zip(bounds, bounds[1:]))
        where = {id(variable): position for position, variable in enumerate(variables)}
        return tuple(
            tuple(where[id(variable)] for variable in group if id(variable) in where)
            for group in self.groups
        )


def checked(
    *,
    compression: Any,
    op: int,
    gradient_predivide_factor: float,
    sparse_as_dense: bool,
    num_groups: int,
    groups: Any,
    process_set: ProcessSet,
) -> GradientSettings:
    """Return the settings for Horovod's arguments; refuse contradictory ones."""
    resolved = ReduceOp(op)
    if resolved is Adasum:
        raise not_supported("op=Adasum", "use Average or Sum")
    if resolved not in (Average, Sum):
        raise ValueError("gradients are reduced with Average or Sum")
    if gradient_predivide_factor != 1.0 and resolved is not Average:
        raise ValueError("gradient_predivide_factor needs op=Average")
    if gradient_predivide_factor <= 0:
        raise ValueError(f"gradient_predivide_factor must be > 0, not {gradient_predivide_factor}")
    return GradientSettings(
        compression=compression,
        op=resolved,
        predivide_factor=gradient_predivide_factor,
        sparse_as_dense=sparse_as_dense,
        groups=_checked_groups(num_groups, groups),
        process_set=process_set,
    )


def _checked_groups(num_groups: int, groups: Any) -> int | tuple[tuple[Any, ...], ...] | None:
    """Return a number of groups, groups of variables, or None; num_groups is the older name."""
    if groups is None:
        groups = num_groups or None
    if groups is None or isinstance(groups, int):
        if groups is not None and groups < 0:
            raise ValueError(f"groups must be >= 0, not {groups}")
        return groups or None
    if not isinstance(groups, (list, tuple)) or not all(
        isinstance(group, (list, tuple)) for group in groups
    ):
        raise ValueError("groups must be a number or a list of lists of variables")
    members = [id(variable) for group in groups for variable in group]
    if len(set(members)) != len(members):
        raise ValueError("a variable appears twice in groups")
    return tuple(tuple(group) for group in groups)


def names_of(variables: Sequence[Any]) -> list[str]:
    """Return names that are unique."""
    return _unique(
        getattr(variable, "path", None) or getattr(variable, "name", None) or "source"
        for variable in variables
    )


def names_on_all_ranks(variables: Sequence[Any]) -> list[str]:
    """Return names that are unique and the same on all ranks.

    Of a path they have the last two parts, the layer and the variable: in a model that one rank has
    loaded and others have made, Keras gives the variables these in common, but not their paths.
    """
    return _unique("/".join(name.split("/")[-2:]) for name in names_of(variables))


def _unique(names: Iterable[str]) -> list[str]:
    names = list(names)
    if len(set(names)) == len(names):
        return names
    return [f"{position}.{name}" for position, name in enumerate(names)]
