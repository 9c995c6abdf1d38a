# SPDX-License-Identifier: Apache-2.0
"""Reduces a list of gradients in TensorFlow.

In a graph the gradients travel in parts while backward still computes others. In eager mode all
gradients are there when the list is, so one call serves for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .._keras import replicas
from .._keras.exchange import Exchange, Form
from .._keras.gradient_settings import GradientSettings
from .._keras.parts import Parts, parts_of
from ..common.process_sets import ProcessSet
from .host_call import HostFunction, host_call
from .mpi_ops import members_op

_TOKEN = [(tf.int32, [])]


class GradientReduction:
    """Reduces gradients of the same variables, in eager mode and in any number of graphs."""

    def __init__(self, kind: str, settings: GradientSettings) -> None:
        self._kind = kind
        self._settings = settings

    def __call__(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Return the reduced gradients. None stays None; it must be None on all ranks."""
        results = list(gradients)
        present = [i for i, gradient in enumerate(gradients) if gradient is not None]
        if not present or not self._settings.is_needed():
            return results
        if replicas.is_on():
            self._compare_replicas(variables)
        travelling = [_Travelling(gradients[i], self._settings) for i in present]
        exchange = self._settings.exchange(
            self._kind,
            [variables[i] for i in present],
            [one.is_sparse for one in travelling],
        )
        tensors = [tensor for one in travelling for tensor in one.tensors]
        outputs = [output for one in travelling for output in one.outputs]
        reduced = iter(_reduced(exchange, tensors, outputs))
        for position, one in zip(present, travelling):
            results[position] = one.arrived([next(reduced) for _ in one.tensors])
        return results

    def _compare_replicas(self, variables: Sequence[Any]) -> None:
        # The sources of a tape may also be tensors, which are data of this rank.
        shared = [v for v in variables if isinstance(v, (tf.Variable, keras.Variable))]
        if shared:
            compare = replicas.on_host(self._kind, shared, self._settings.process_set)
            values = [tf.convert_to_tensor(variable) for variable in shared]
            host_call(compare, values, _TOKEN, "HorovodReplicas", is_ordered=False)


def _reduced(
    exchange: Exchange, tensors: Sequence[tf.Tensor], outputs: Sequence[tuple[tf.DType, Any]]
) -> list[tf.Tensor]:
    parts = None if tf.executing_eagerly() else parts_of(exchange, [_form(t) for t in tensors])
    if parts is None:
        return host_call(exchange, tensors, outputs, "HorovodGradients", is_ordered=False)
    token: list[tf.Tensor] = []
    for number, positions in enumerate(parts.positions):
        inputs = [*token, *(tensors[i] for i in positions)]
        token = host_call(
            _submitting(parts, number),
            inputs,
            _TOKEN,
            f"HorovodGradients_{number}",
            is_ordered=False,
        )
    return host_call(parts.finish, token, outputs, "HorovodGradients", is_ordered=False)


def _submitting(parts: Parts, number: int) -> HostFunction:
    if number == 0:
        return lambda *arrays: [parts.begin(*arrays)]
    return lambda *arrays: [parts.submit(number, *arrays)]


def _form(tensor: tf.Tensor) -> Form:
    is_known = tensor.shape.is_fully_defined()
    return np.dtype(tensor.dtype.as_numpy_dtype), tuple(tensor.shape) if is_known else None


class _Travelling:
    """One gradient as the tensors that travel, and how to restore it."""

    def __init__(self, gradient: Any, settings: GradientSettings) -> None:
        if isinstance(gradient, tf.IndexedSlices) and settings.sparse_as_dense:
            gradient = tf.convert_to_tensor(gradient)
        self.is_sparse = isinstance(gradient, tf.IndexedSlices)
        self._gradient = gradient
        self._compression = settings.compression
        values = gradient.values if self.is_sparse else tf.convert_to_tensor(gradient)
        compressed, self._context = settings.compression.compress(values)
        self.tensors = [compressed, gradient.indices] if self.is_sparse else [compressed]

    @property
    def outputs(self) -> list[tuple[tf.DType, Any]]:
        """The types and static shapes of the received tensors."""
        if not self.is_sparse:
            return [(self.tensors[0].dtype, self.tensors[0].shape)]
        values, indices = self.tensors
        rows = None if values.shape.rank is None else [None, *values.shape[1:]]
        return [(values.dtype, tf.TensorShape(rows)), (indices.dtype, [None])]

    def arrived(self, tensors: Sequence[tf.Tensor]) -> Any:
        """Return the reduced gradient in its own form and type."""
        values = self._compression.decompress(tensors[0], self._context)
        if not self.is_sparse:
            return values
        return tf.IndexedSlices(values, tensors[1], dense_shape=self._gradient.dense_shape)


def divided(gradient: Any, process_set: ProcessSet) -> Any:
    """Return the gradient divided by the number of ranks, of the time when a graph runs."""
    number = members_op(process_set)
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(
            gradient.values / tf.cast(number, gradient.values.dtype),
            gradient.indices,
            gradient.dense_shape,
        )
    return gradient / tf.cast(number, gradient.dtype)


def dense(gradients: Sequence[Any]) -> list[Any]:
    """Return the gradients, with tf.IndexedSlices made dense."""
    return [
        tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient
        for gradient in gradients
    ]
