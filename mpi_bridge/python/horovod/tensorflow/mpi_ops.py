# SPDX-License-Identifier: Apache-2.0
"""The collectives on tensors, in eager mode and in graphs, each with its gradient.

Tensors of all ranks are matched by the operation's name. An operation without a name gets one: in a
graph it is derived from the name of the first tensor. In eager mode it is counted, so that calls
without a name must come in the same order on all ranks.

Like Horovod's module of this name, it also has what horovod.tensorflow has about ranks and process
sets, because scripts import that from here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Callable

import numpy as np
import tensorflow as tf

from mpi_bridge import engine, process_sets, world

from .._keras import operations
from .._keras.operations import Reduction
from ..common.basics import *  # noqa: F403
from ..common.process_sets import ProcessSet, global_process_set, number_of
from ..common.process_sets import add_process_set as add_process_set
from ..common.process_sets import remove_process_set as remove_process_set
from ..common.reduce_ops import Adasum as Adasum
from ..common.reduce_ops import Average, Sum
from ..common.reduce_ops import Max as Max
from ..common.reduce_ops import Min as Min
from ..common.reduce_ops import Product as Product
from ..common.unsupported import not_supported
from .host_call import host_call

try:
    from tensorflow.python.eager import record as _record
except ImportError:
    _record = None

Tensors = list[tf.Tensor]


def operation_name(
    kind: str, name: str | None, tensors: Sequence[Any], ignore_name_scope: bool
) -> str | None:
    """Return the name by which the ranks' tensors are matched; None lets the engine count."""
    if name is None:
        if tf.executing_eagerly():
            return None
        ends = [tensors[0]] if len(tensors) == 1 else [tensors[0], tensors[-1]]
        name = "_".join([f"Horovod{kind}", *(tensor.name for tensor in ends)])
    scope = "" if ignore_name_scope else tf.get_current_name_scope()
    return re.sub(r"[^a-zA-Z0-9_/.]", "_", f"{scope}/{name}" if scope else name)


def _gradient_name(name: str | None) -> str | None:
    return None if name is None else f"{name}_grad"


def _require_linear(reduction: Reduction) -> None:
    if reduction.op not in (Average, Sum):
        raise not_supported(f"the gradient of an operation with op={reduction.op.name.title()}")


def _could_be_recorded() -> bool:
    """Tell whether a gradient tape, or a forward accumulator, is open in this thread."""
    # TensorFlow has no public function for it; where it does not have this one, always.
    return _record is None or _record.could_possibly_record()


def _differentiable(
    forward: Callable[[Tensors], Tensors],
    backward: Callable[[Tensors, Tensors, Tensors], Sequence[tf.Tensor | None]],
    tensors: Sequence[tf.Tensor],
) -> Tensors:
    """Return forward(tensors), with backward(gradients, tensors, results) as its gradient."""
    if tf.executing_eagerly() and not _could_be_recorded():
        # To describe a gradient takes longer than to reduce a small tensor.
        return forward(list(tensors))

    @tf.custom_gradient
    def function(*inputs: tf.Tensor) -> Any:
        results = forward(list(inputs))

        def gradient(*upstream: tf.Tensor) -> Any:
            return backward(list(upstream), list(inputs), results)

        return results, gradient

    return list(function(*tensors))


def allreduce_all(tensors: Sequence[tf.Tensor], reduction: Reduction, name: str | None) -> Tensors:
    """Return op over all ranks of each tensor; the gradient is reduced in the same way."""

    def reduce(inputs: Tensors, name: str | None) -> Tensors:
        return host_call(
            lambda *arrays: operations.allreduce(arrays, reduction, name),
            inputs,
            [(tensor.dtype, tensor.shape) for tensor in inputs],
            "HorovodAllreduce",
        )

    def backward(gradients: Tensors, _inputs: Tensors, _results: Tensors) -> Tensors:
        _require_linear(reduction)
        return reduce(gradients, _gradient_name(name))

    return _differentiable(lambda inputs: reduce(inputs, name), backward, tensors)


def _row_shape(tensor: tf.Tensor, rows: int | None = None) -> tf.TensorShape:
    if tensor.shape.rank is None:
        return tf.TensorShape(None)
    return tf.TensorShape([rows, *tensor.shape[1:]])


def members_of(rows: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return how many members have told their numbers of rows.

    Unlike the size of the process set, it is that of the time when a graph runs: ranks of an
    elastic job may go on in their processes after others are lost.
    """
    return tf.cast(tf.size(rows), dtype)


def _gather(tensors: Tensors, process_set: int, name: str | None) -> Tensors:
    """Return the gathered tensors, then the numbers of rows of every member for each."""
    return host_call(
        lambda *arrays: operations.allgather(arrays, process_set, name),
        tensors,
        [(tensor.dtype, _row_shape(tensor)) for tensor in tensors]
        + [(tf.int32, [None])] * len(tensors),
        "HorovodAllgather",
    )


def gathered_all(
    tensors: Sequence[tf.Tensor], process_set: int, name: str | None
) -> tuple[Tensors, Tensors]:
    """Join each tensor's rows; also return the numbers of rows of every member for each.

    The gradient is this rank's rows of the averaged gradient.
    """
    count = len(tensors)

    def average(*arrays: np.ndarray) -> list[np.ndarray]:
        reduction = Reduction(Average, 1.0, 1.0, process_set)
        averaged = operations.allreduce(arrays, reduction, _gradient_name(name))
        return [*averaged, np.asarray(process_sets.rank(process_set), np.int32)]

    def backward(gradients: Tensors, inputs: Tensors, results: Tensors) -> Tensors:
        forms = [(gradient.dtype, gradient.shape) for gradient in gradients[:count]]
        *averaged, own = host_call(
            average, gradients[:count], [*forms, (tf.int32, [])], "HorovodAllreduce"
        )
        parts = []
        for gradient, tensor, rows in zip(averaged, inputs, results[count:]):
            first = tf.reduce_sum(rows[:own])
            part = gradient[first : first + rows[own]]
            parts.append(tf.reshape(part, tf.shape(tensor)))
        return parts

    results = _differentiable(lambda inputs: _gather(inputs, process_set, name), backward, tensors)
    return results[:count], results[count:]


def allgather_all(tensors: Sequence[tf.Tensor], process_set: int, name: str | None) -> Tensors:
    """Join each tensor's rows; the gradient is this rank's rows of the averaged gradient."""
    return gathered_all(tensors, process_set, name)[0]


def allgather(
    tensor: Any,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """Return the rows (dimension 0) of all ranks one after the other; their number may differ."""
    tensors = [tf.convert_to_tensor(tensor)]
    name = operation_name("Allgather", name, tensors, ignore_name_scope)
    return allgather_all(tensors, number_of(process_set), name)[0]


def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Tensors:
    """Return allgather() of each tensor; all run together or none does."""
    tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
    name = operation_name("GroupedAllgather", name, tensors, ignore_name_scope)
    return allgather_all(tensors, number_of(process_set), name)


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """Return the root's tensor; the others pass one of the same type and shape.

    `root_rank` is a rank of the job, also in a process set. The gradient is the average at the root
    and zero elsewhere.
    """
    tensor = tf.convert_to_tensor(tensor)
    name = operation_name("Broadcast", name, [tensor], ignore_name_scope)
    identifier = number_of(process_set)

    def average_at_root(array: np.ndarray) -> list[np.ndarray]:
        average = Reduction(Average, 1.0, 1.0, identifier)
        (averaged,) = operations.allreduce([array], average, _gradient_name(name))
        if world.rank() != root_rank:
            averaged[...] = 0
        return [averaged]

    def backward(gradients: Tensors, _inputs: Tensors, _results: Tensors) -> Tensors:
        form = (gradients[0].dtype, gradients[0].shape)
        return host_call(average_at_root, gradients, [form], "HorovodAllreduce")

    return _differentiable(
        lambda inputs: host_call(
            lambda array: operations.broadcast([array], root_rank, identifier, name),
            inputs,
            [(tensor.dtype, tensor.shape)],
            "HorovodBroadcast",
        ),
        backward,
        [tensor],
    )[0]


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send splits[r] rows to member r of the set; with splits also return the received splits.

    Without splits the rows are divided evenly. Rows beyond the sum of the splits are not sent, and
    their gradient is zero. The gradient takes the opposite way.
    """
    tensor = tf.convert_to_tensor(tensor)
    name = operation_name("Alltoall", name, [tensor], ignore_name_scope)
    parts = tf.constant([], tf.int32) if splits is None else tf.convert_to_tensor(splits)
    identifier = number_of(process_set)

    def exchange(rows: tf.Tensor, parts: tf.Tensor, name: str | None) -> Tensors:
        return host_call(
            lambda array, splits: operations.alltoall(array, splits, identifier, name),
            [rows, parts],
            [(rows.dtype, _row_shape(rows)), (tf.int32, [None])],
            "HorovodAlltoall",
        )

    def backward(gradients: Tensors, inputs: Tensors, results: Tensors) -> list[Any]:
        back = exchange(gradients[0], results[1], _gradient_name(name))[0]
        # TensorFlow may hand over a gradient of another type than that of the tensor.
        not_sent = tf.zeros_like(inputs[0][tf.shape(back)[0] :], back.dtype)
        back = tf.concat([back, not_sent], 0)
        return [tf.ensure_shape(back, inputs[0].shape), None]

    received, received_splits = _differentiable(
        lambda inputs: exchange(inputs[0], inputs[1], name), backward, [tensor, parts]
    )
    return received if splits is None else (received, received_splits)


def reducescatter_all(
    tensors: Sequence[tf.Tensor], reduction: Reduction, name: str | None
) -> Tensors:
    """Reduce each tensor and return this rank's rows; the gradient gathers them."""

    def backward(gradients: Tensors, inputs: Tensors, _results: Tensors) -> Tensors:
        _require_linear(reduction)
        factor = tf.constant(reduction.prescale * reduction.postscale, tf.float64)
        gathered = _gather(gradients, reduction.process_set, _gradient_name(name))
        if reduction.op is Sum:
            factor *= members_of(gathered[-1], tf.float64)
        return [
            tf.ensure_shape(gradient * tf.cast(factor, gradient.dtype), tensor.shape)
            for gradient, tensor in zip(gathered, inputs)
        ]

    return _differentiable(
        lambda inputs: host_call(
            lambda *arrays: operations.reducescatter(arrays, reduction, name),
            inputs,
            [(tensor.dtype, _row_shape(tensor)) for tensor in inputs],
            "HorovodReducescatter",
        ),
        backward,
        tensors,
    )


def _number_op(value: Callable[[], int], name: str | None) -> tf.Tensor:
    """Return an integer that is computed when the graph runs, not when it is built."""
    # Most do not wait for other ranks, and join() must not run when only another call is asked for.
    return host_call(
        lambda: [np.asarray(value(), np.int32)], [], [(tf.int32, [])], name, is_ordered=False
    )[0]


def size_op(process_set_id: int = engine.WORLD, name: str | None = None) -> tf.Tensor:
    """Return the number of ranks in the process set."""
    return _number_op(lambda: process_sets.size(process_set_id), name)


def members_op(process_set: ProcessSet) -> tf.Tensor:
    """Return the number of ranks in the process set, even if its own number changes."""
    return _number_op(process_set.size, None)


def rank_op(name: str | None = None) -> tf.Tensor:
    """Return this process's number among all ranks."""
    return _number_op(world.rank, name)


def local_size_op(name: str | None = None) -> tf.Tensor:
    """Return the number of ranks on this host."""
    return _number_op(world.local_size, name)


def local_rank_op(name: str | None = None) -> tf.Tensor:
    """Return this process's number among the ranks on its host."""
    return _number_op(world.local_rank, name)


def process_set_included_op(
    process_set_id: int = engine.WORLD, name: str | None = None
) -> tf.Tensor:
    """Return 1 if this process is in the process set, else 0."""
    return _number_op(lambda: int(process_sets.rank(process_set_id) >= 0), name)


def join() -> tf.Tensor:
    """Say that this rank has no more data and wait for all others; return who came last.

    Until then this rank contributes zeros to the allreduces of the others.
    """
    return _number_op(engine.join, "HorovodJoin")
