# SPDX-License-Identifier: Apache-2.0
"""Reduces a list of gradients on the JAX backend of Keras, inside and outside of jax.jit.

A compiled program calls the host by io_callback, which is neither dropped nor repeated. All
gradients of a step are one call, so no order among calls has to be requested.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import io_callback
from jax.experimental.sparse import JAXSparse

from .exchange import Exchange
from .gradient_settings import GradientSettings


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


def divided(gradient: Any, number: int) -> Any:
    """Return gradient / number."""
    return gradient / number


def _call(exchange: Exchange, tensors: Sequence[Any]) -> Sequence[Any]:
    if not any(isinstance(tensor, jax.core.Tracer) for tensor in tensors):
        arrays = exchange(*(np.asarray(tensor) for tensor in tensors))
        # A copy is needed, because JAX may adopt the memory and relies on nobody writing to it.
        return [jax.numpy.array(array) for array in arrays]
    shapes = [jax.ShapeDtypeStruct(tensor.shape, tensor.dtype) for tensor in tensors]
    return io_callback(
        lambda *arrays: exchange(*(np.asarray(array) for array in arrays)), shapes, *tensors
    )


def dense(gradients: Sequence[Any]) -> list[Any]:
    """Return the gradients, with sparse ones made dense, because a compiled step needs that."""
    return [
        gradient.todense() if isinstance(gradient, JAXSparse) else gradient
        for gradient in gradients
    ]
