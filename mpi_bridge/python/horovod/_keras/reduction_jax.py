# SPDX-License-Identifier: Apache-2.0
"""Reduces a list of gradients on the JAX backend of Keras, inside and outside of jax.jit.

A compiled program calls the host by io_callback, which is neither dropped nor repeated. The calls
of a step pass a token on, so no order among them has to be requested.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Callable

import jax
import numpy as np
from jax.experimental import io_callback
from jax.experimental.sparse import JAXSparse

from ..common.process_sets import ProcessSet
from . import failures, replicas
from .exchange import Exchange
from .gradient_settings import GradientSettings
from .parts import parts_of

# JAX has 64-bit integers only where a script enables them.
_TOKEN = jax.ShapeDtypeStruct((), np.int32)


class GradientReduction:
    """Reduces gradients of the same variables; see the one for TensorFlow."""

    def __init__(self, kind: str, settings: GradientSettings) -> None:
        self._kind = kind
        self._settings = settings

    def __call__(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Return the reduced gradients. None stays None; it must be None on all ranks."""
        gradients = dense(gradients)
        results = list(gradients)
        present = [i for i, gradient in enumerate(gradients) if gradient is not None]
        if not present or not self._settings.is_needed():
            return results
        compression = self._settings.compression
        pairs = [compression.compress(gradients[i]) for i in present]
        exchange = self._settings.exchange(self._kind, [variables[i] for i in present])
        reduced = _call(exchange, [tensor for tensor, _ in pairs])
        for position, tensor, (_, context) in zip(present, reduced, pairs):
            results[position] = compression.decompress(tensor, context)
        return results


def compare_replicas(
    kind: str,
    variables: Sequence[Any],
    values: Sequence[Any],
    gradients: Sequence[Any],
    process_set: ProcessSet,
) -> list[Any]:
    """Compare the variables' values; return the gradients, to be reduced after that.

    While a step is compiled, a variable does not tell its value of the step.
    """
    compare = _on_host(replicas.on_host(kind, variables, process_set))
    token = io_callback(lambda *arrays: compare(*arrays)[0], _TOKEN, *values)
    # All ranks must come to the comparison before they come to the gradients.
    return [
        gradient if gradient is None else jax.lax.optimization_barrier((gradient, token))[0]
        for gradient in gradients
    ]


def divided(gradient: Any, process_set: ProcessSet) -> Any:
    """Return the gradient divided by the number of ranks, of the time when a program runs."""
    if not isinstance(gradient, jax.core.Tracer):
        return gradient / process_set.size()
    return gradient / io_callback(lambda: np.asarray(process_set.size(), np.int32), _TOKEN)


def _call(exchange: Exchange, tensors: Sequence[Any]) -> Sequence[Any]:
    if not any(isinstance(tensor, jax.core.Tracer) for tensor in tensors):
        arrays = exchange(*(np.asarray(tensor) for tensor in tensors))
        # A copy is needed, because JAX may adopt the memory and relies on nobody writing to it.
        return [jax.numpy.array(array) for array in arrays]
    shapes = [jax.ShapeDtypeStruct(tensor.shape, tensor.dtype) for tensor in tensors]
    parts = parts_of(exchange, [(np.dtype(shape.dtype), shape.shape) for shape in shapes])
    if parts is None:
        return io_callback(_on_host(exchange), shapes, *tensors)
    token: list[Any] = []
    for number, positions in enumerate(parts.positions):
        submit = functools.partial(parts.submit, number) if number else parts.begin
        inputs = [*token, *(tensors[i] for i in positions)]
        token = [io_callback(_on_host(submit), _TOKEN, *inputs)]
    return io_callback(_on_host(parts.finish), shapes, *token)


def _on_host(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*arrays: Any) -> Any:
        with failures.remembered():
            return function(*(np.asarray(array) for array in arrays))

    return called


def dense(gradients: Sequence[Any]) -> list[Any]:
    """Return the gradients, with sparse ones made dense, because a compiled step needs that."""
    return [
        gradient.todense() if isinstance(gradient, JAXSparse) else gradient
        for gradient in gradients
    ]
