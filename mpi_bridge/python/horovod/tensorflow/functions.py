# SPDX-License-Identifier: Apache-2.0
"""A common starting point for all ranks: broadcast of variables and of Python objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable

import tensorflow as tf

from .._keras import objects, operations
from ..common.process_sets import ProcessSet, global_process_set, number_of
from ..common.unsupported import not_supported
from .host_call import host_call


def tensorflow_variable(variable: Any) -> Any:
    """Return the tf.Variable of a Keras variable; return other variables as they are."""
    value = getattr(variable, "value", None)
    # tf.Variable.value is a method, but that of a Keras variable is a property.
    return value if isinstance(value, tf.Variable) else variable


def broadcast_(
    variables: Iterable[Any],
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[tf.Tensor]:
    """Overwrite the variables with the root's, all in one group, and return the new values.

    The variables are matched by their position.
    """
    targets = [tensorflow_variable(variable) for variable in variables]
    if not targets:
        return []
    identifier = number_of(process_set)
    name = name or "broadcast_"
    values = host_call(
        lambda *arrays: operations.broadcast(arrays, root_rank, identifier, name),
        [variable.read_value() for variable in targets],
        [(variable.dtype.base_dtype, variable.shape) for variable in targets],
        "HorovodBroadcast",
        is_ordered=False,
    )
    assigned = [variable.assign(value) for variable, value in zip(targets, values)]
    return [value if isinstance(value, tf.Tensor) else value.read_value() for value in assigned]


def broadcast_variables(
    variables: Iterable[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> Any:
    """Overwrite the variables with the root's; in a graph return the operation that does so.

    `inplace` is accepted; the variables are always overwritten by assignment.
    """
    values = broadcast_(variables, root_rank, "broadcast_variables", process_set)
    return None if tf.executing_eagerly() else tf.group(*values)


def broadcast_global_variables(root_rank: int) -> Any:
    """Return the operation that broadcasts tf.compat.v1.global_variables(), for v1 graphs."""
    if tf.executing_eagerly():
        raise RuntimeError(
            "broadcast_global_variables() is for graphs of tf.compat.v1: there is no list of all "
            "variables in eager mode; use broadcast_variables(model.variables, root_rank=0)"
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Broadcasts all global variables of a tf.compat.v1 graph once its session exists."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self._root_rank = root_rank
        self._operation: Any = None

    def begin(self) -> None:
        """Add the broadcast to the graph before the graph is finalized."""
        graph = tf.compat.v1.get_default_graph()
        if self._operation is None or self._operation.graph is not graph:
            self._operation = broadcast_global_variables(self._root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Run the broadcast."""
        session.run(self._operation)


def _refuse_session(session: Any) -> None:
    if session is not None:
        raise not_supported("session=", "leave it out; objects travel outside the graph")


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the root's object on every rank; it must be picklable."""
    _refuse_session(session)
    return objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[Any], Any]:
    """Return a function that calls broadcast_object() for its argument."""
    _refuse_session(session)
    return lambda obj: broadcast_object(obj, root_rank, None, name, process_set)


def allgather_object(
    obj: Any,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Return every rank's object, in the order of the process set."""
    _refuse_session(session)
    return objects.allgather_object(obj, name, process_set)
