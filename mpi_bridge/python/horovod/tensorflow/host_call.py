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
order.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from typing import Any, Callable

import numpy as np
import tensorflow as tf

from .._keras import failures, result_memory
from ..common.unsupported import not_supported

HostFunction = Callable[..., Sequence[np.ndarray]]

_last_call: weakref.WeakKeyDictionary[tf.Graph, tf.Operation] = weakref.WeakKeyDictionary()


@tf.autograph.experimental.do_not_convert
def host_call(
    function: HostFunction,
    tensors: Sequence[tf.Tensor],
    outputs: Sequence[tuple[tf.DType, Any]],
    name: str | None = None,
) -> list[tf.Tensor]:
    """Call `function` with numpy arrays of the tensors' values and return tensors of its results.

    `outputs` gives the type and the static shape of each result. The function must neither change
    its arguments nor return one of them.
    """
    if tf.executing_eagerly():
        results = function(*(array_of(tensor) for tensor in tensors))
        return [tensor_of(result) for result in results]
    _refuse_compilation()
    with tf.control_dependencies(_previous_call()):
        nodes = tf.numpy_function(
            _remembering(function), list(tensors), [dtype for dtype, _ in outputs], name=name
        )
    # With a single output type numpy_function returns the tensor instead of a list.
    results = list(nodes) if isinstance(nodes, (list, tuple)) else [nodes]
    for tensor, (_, shape) in zip(results, outputs):
        tensor.set_shape(shape)
    _remember_call(results)
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


def _previous_call() -> list[tf.Operation]:
    graph = tf.compat.v1.get_default_graph()
    previous = None if graph.building_function else _last_call.get(graph)
    return [] if previous is None else [previous]


def _remember_call(results: Sequence[tf.Tensor]) -> None:
    graph = tf.compat.v1.get_default_graph()
    # In a branch or a loop, the construct itself defines the order, and its nodes are not visible
    # outside.
    if results and not graph.building_function and graph._get_control_flow_context() is None:
        _last_call[graph] = results[0].op


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
