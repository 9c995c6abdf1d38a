# SPDX-License-Identifier: Apache-2.0
"""Calls Python from TensorFlow, eagerly or as a node of a graph.

The collectives are Python functions over the C library and not TensorFlow operations of their own,
because those must be compiled against the headers of the very TensorFlow that loads them, which is
what keeps Horovod from installing. A tf.numpy_function node serves as well here. On the CPU it
passes views of the tensors and adopts results that are aligned to 64 bytes, both without a copy,
and it releases the interpreter while the function waits in the C library. TensorFlow copies tensors
of a GPU to the host and back.

In a tf.function such nodes are stateful, so TensorFlow runs them one after the other in the order
of the program, which is the same on every rank. For graphs of tf.compat.v1, this module adds that
order where it can: a node that comes after another in a graph lets a session run that other, too.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import Any, Callable

import numpy as np
import tensorflow as tf

from .._keras import failures, result_memory
from ..common.unsupported import not_supported

HostFunction = Callable[..., Sequence[np.ndarray]]

# Stateful operations that only read variables, or call the host as the nodes made here do.
_READING = ("VarHandleOp", "ReadVariableOp", "VariableV2", "Variable", "PyFunc")

_Sources = frozenset[tf.Operation]


@tf.autograph.experimental.do_not_convert
def host_call(
    function: HostFunction,
    tensors: Sequence[tf.Tensor],
    outputs: Sequence[tuple[tf.DType, Any]],
    name: str | None = None,
    is_ordered: bool = True,
) -> list[tf.Tensor]:
    """Call `function` with numpy arrays of the tensors' values and return tensors of its results.

    `outputs` gives the type and the static shape of each result. The function must neither change
    its arguments nor return one of them. In a graph of tf.compat.v1, a call that `is_ordered` comes
    after the one before it; scripts run all others in steps of their own.
    """
    if tf.executing_eagerly():
        results = function(*(array_of(tensor) for tensor in tensors))
        return [tensor_of(result) for result in results]
    _refuse_compilation()
    sources = _sources(tensors) if is_ordered else frozenset()
    with tf.control_dependencies(_previous_call(sources) if is_ordered else []):
        nodes = tf.numpy_function(
            _remembering(function), list(tensors), [dtype for dtype, _ in outputs], name=name
        )
    # With a single output type numpy_function returns the tensor instead of a list.
    results = list(nodes) if isinstance(nodes, (list, tuple)) else [nodes]
    for tensor, (_, shape) in zip(results, outputs):
        tensor.set_shape(shape)
    if is_ordered:
        _remember_call(results, sources)
    return results


def array_of(tensor: tf.Tensor) -> np.ndarray:
    """Return an eager tensor's value; on the CPU it is a view."""
    if tensor.dtype == tf.bfloat16:  # unknown to the buffer protocol
        bits = np.asarray(memoryview(tf.bitcast(tensor, tf.uint16)))
        return bits.view(tf.bfloat16.as_numpy_dtype)
    return np.asarray(memoryview(tensor))


def tensor_of(array: np.ndarray) -> tf.Tensor:
    """Return an eager tensor of the array, without a copy if the array is aligned."""
    is_aligned = array.__array_interface__["data"][0] % result_memory.ALIGNMENT == 0
    if not is_aligned or array.size == 0 or array.dtype.kind not in "iuf":
        return tf.convert_to_tensor(array)  # bfloat16 and bool have no common DLPack type
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())


def _remembering(function: HostFunction) -> HostFunction:
    def called(*arrays: np.ndarray) -> list[np.ndarray]:
        with failures.remembered():
            return list(function(*arrays))

    return called


def _is_in_a_session() -> bool:
    """Tell whether nodes made now are run by sessions, in no order of their own."""
    graph = tf.compat.v1.get_default_graph()
    # In a branch or a loop, the construct itself defines the order, and its nodes are not visible
    # outside.
    return not graph.building_function and graph._get_control_flow_context() is None


def _calls_of_the_graph() -> list[tuple[tf.Operation, _Sources]]:
    """Return the ordered calls, and what each of them depends on; they end with the graph."""
    graph = tf.compat.v1.get_default_graph()
    if not hasattr(graph, "_mpi_bridge_calls"):
        graph._mpi_bridge_calls = []
    return graph._mpi_bridge_calls


def _previous_call(sources: _Sources) -> list[tf.Operation]:
    calls = [] if tf.compat.v1.get_default_graph().building_function else _calls_of_the_graph()
    # A session that runs this call will run the previous one with it. That must neither want a
    # placeholder's value nor read data or assign variables, unless this call does so anyway.
    harmless = (call for call, its_sources in reversed(calls) if its_sources <= sources)
    return list(itertools.islice(harmless, 1))


def _remember_call(results: Sequence[tf.Tensor], sources: _Sources) -> None:
    if results and _is_in_a_session():
        _calls_of_the_graph().append((results[0].op, sources))


def _sources(tensors: Sequence[tf.Tensor]) -> _Sources:
    """Return what these depend on that a session must not run without being asked to."""
    if not _is_in_a_session():
        return frozenset()
    found, left = set(), [tensor.op for tensor in tensors]
    seen = set(left)
    while left:
        operation = left.pop()
        kind = operation.type
        if kind.startswith("Placeholder") or (
            operation.op_def.is_stateful and kind not in _READING and "Random" not in kind
        ):
            found.add(operation)
        inputs = [tensor.op for tensor in operation.inputs]
        new = {one for one in (*inputs, *operation.control_inputs) if one not in seen}
        seen |= new
        left.extend(new)
    return frozenset(found)


def _refuse_compilation() -> None:
    """Raise a clear error, because XLA would fail on the node with an obscure one."""
    frame = sys._getframe(2)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if frame.f_code.co_name == "_call" and getattr(owner, "_jit_compile", None) is True:
            raise not_supported(
                "a collective in a function compiled by XLA",
                "leave out tf.function(jit_compile=True); with model.fit() pass "
                "jit_compile=False to model.compile(), or give model.fit() the "
                "BroadcastGlobalVariablesCallback, which turns it off",
            )
        frame = frame.f_back
