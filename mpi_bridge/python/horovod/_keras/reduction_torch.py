# SPDX-License-Identifier: Apache-2.0
"""Reduces a list of gradients on the torch backend of Keras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .gradient_settings import GradientSettings


class GradientReduction:
    """Reduces gradients of the same variables; see the one for TensorFlow."""

    def __init__(self, kind: str, settings: GradientSettings) -> None:
        self._kind = kind
        self._settings = settings

    def __call__(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Return the reduced gradients. None stays None; it must be None on all ranks."""
        results = list(gradients)
        present = [i for i, gradient in enumerate(gradients) if gradient is not None]
        if not present or not self._settings.is_needed():
            return results
        compression = self._settings.compression
        pairs = [compression.compress(self._dense(gradients[i])) for i in present]
        exchange = self._settings.exchange(self._kind, [variables[i] for i in present])
        reduced = exchange(*(_array(tensor) for tensor, _ in pairs))
        for position, array, (sent, context) in zip(present, reduced, pairs):
            arrived = _tensor(array, sent).to(sent.device)
            results[position] = compression.decompress(arrived, context)
        return results

    @staticmethod
    def _dense(gradient: torch.Tensor) -> torch.Tensor:
        # Keras' optimizers for torch take dense gradients only, whatever sparse_as_dense says.
        gradient = gradient.detach()
        return gradient.to_dense() if gradient.is_sparse else gradient


def divided(gradient: torch.Tensor, number: int) -> torch.Tensor:
    """Return gradient / number."""
    return gradient / number


def _array(tensor: torch.Tensor) -> np.ndarray:
    """Return a view of the tensor, or of its copy on the host."""
    tensor = tensor.cpu().contiguous()
    if tensor.dtype == torch.bfloat16:  # unknown to numpy
        import ml_dtypes

        return tensor.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def _tensor(array: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    """Return a tensor that uses the array's memory."""
    if like.dtype == torch.bfloat16:
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def dense(gradients: Sequence[Any]) -> list[Any]:
    """Return the gradients, with sparse ones made dense."""
    return [
        gradient.to_dense() if gradient is not None and gradient.is_sparse else gradient
        for gradient in gradients
    ]
