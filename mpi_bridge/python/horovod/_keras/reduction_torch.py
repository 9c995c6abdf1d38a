# SPDX-License-Identifier: Apache-2.0
"""Reduces a list of gradients on the torch backend of Keras.

In Keras' own training step (`model.fit()`, `train_on_batch()`) the gradients travel in parts while
backward still computes others. Hooks of the parameters submit a part when its gradients are there.
A training loop of the script's own may do anything between backward and apply(), on one rank only,
so there all gradients are submitted by apply().
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from mpi_bridge import torch_replicas

from ..common.process_sets import ProcessSet
from . import replicas
from .gradient_settings import GradientSettings, names_on_all_ranks
from .parts import Parts, parts_of


class GradientReduction:
    """Reduces gradients of the same variables; see the one for TensorFlow."""

    def __init__(self, kind: str, settings: GradientSettings) -> None:
        self._kind = kind
        self._settings = settings
        self._is_keras_step = False
        self._arrivals: Arrivals | None = None
        self._may_arrive_early = True

    def begin_step(self) -> None:
        """Be told by Keras' training step that its backward pass is next."""
        self._is_keras_step = True
        if self._arrivals is not None:
            self._arrivals.begin_step()

    def __call__(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Return the reduced gradients. None stays None; it must be None on all ranks."""
        is_keras_step, self._is_keras_step = self._is_keras_step, False
        results = list(gradients)
        present = [i for i, gradient in enumerate(gradients) if gradient is not None]
        if not present or not self._settings.is_needed():
            return results
        if replicas.is_on():
            checks = replicas.checks_of(self._kind, variables, self._settings.process_set)
            if checks.is_due():
                named = dict(zip((v.value for v in variables), names_on_all_ranks(variables)))
                torch_replicas.compare(checks, named)
        if self._arrivals is not None:
            early = self._arrivals.finish_step(gradients)
            if early is not None:
                return early
            # The step did not end as the one before. All ranks run the same step.
            self._arrivals, self._may_arrive_early = None, False
        pairs = [self._compressed(gradients[i]) for i in present]
        exchange = self._settings.exchange(self._kind, [variables[i] for i in present])
        arrays = [_array(tensor) for tensor, _ in pairs]
        reduced = exchange(*arrays)
        for position, array, pair in zip(present, reduced, pairs):
            results[position] = self._decompressed(array, *pair)
        parameters = [variable.value for variable in variables]
        if self._may_arrive_early and is_keras_step and _are_of(gradients, parameters):
            parts = parts_of(exchange, [(array.dtype, array.shape) for array in arrays])
            if parts is not None:
                self._arrivals = Arrivals(parts, parameters, self)
        return results

    def _compressed(self, gradient: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return self._settings.compression.compress(self._dense(gradient))

    def _decompressed(self, array: np.ndarray, sent: torch.Tensor, context: Any) -> torch.Tensor:
        arrived = _tensor(array, sent).to(sent.device)
        return self._settings.compression.decompress(arrived, context)

    @staticmethod
    def _dense(gradient: torch.Tensor) -> torch.Tensor:
        # Keras' optimizers for torch take dense gradients only, whatever sparse_as_dense says.
        gradient = gradient.detach()
        return gradient.to_dense() if gradient.is_sparse else gradient


class Arrivals:
    """The gradients of some parameters, which arrive during Keras' backward pass."""

    def __init__(
        self, parts: Parts, parameters: Sequence[torch.Tensor], reduction: GradientReduction
    ) -> None:
        self._parts = parts
        self._parameters = list(parameters)
        self._reduction = weakref.ref(reduction)
        self._is_armed = False
        self._gradients: dict[int, tuple[torch.Tensor, int]] = {}  # with their versions
        self._pairs: dict[int, tuple[torch.Tensor, Any]] = {}
        self._token: np.ndarray | None = None
        self._submitted = 0  # parts of this step
        hooks: list[Any] = []
        weakref.finalize(self, _remove_all, hooks)
        this = weakref.ref(self)
        for position, parameter in enumerate(self._parameters):

            def arrived(gradient_of: torch.Tensor, position: int = position) -> None:
                arrivals = this()
                if arrivals is not None and arrivals._is_armed:
                    arrivals._arrived(position, gradient_of)

            hooks.append(parameter.register_post_accumulate_grad_hook(arrived))

    def begin_step(self) -> None:
        """Collective: submit from now on what arrives."""
        # So that no hook waits for the other ranks.
        self._parts.agree()
        self._is_armed = True
        self._gradients.clear()
        self._pairs.clear()
        self._token, self._submitted = None, 0

    def _arrived(self, position: int, parameter: torch.Tensor) -> None:
        if position in self._gradients or parameter.grad.is_sparse:
            # finish_step() sees that these are not the gradients that have been submitted.
            self._is_armed = False
            return
        self._gradients[position] = (parameter.grad, parameter.grad._version)
        while self._submitted < len(self._parts.positions):
            positions = self._parts.positions[self._submitted]
            if not all(each in self._gradients for each in positions):
                return
            self._submit(positions)

    def _submit(self, positions: Sequence[int]) -> None:
        reduction = self._reduction()
        arrays = []
        for each in positions:
            self._pairs[each] = reduction._compressed(self._gradients[each][0])
            arrays.append(_array(self._pairs[each][0]))
        if self._token is None:
            self._token = self._parts.begin(*arrays)
        else:
            self._parts.submit(self._submitted, self._token, *arrays)
        self._submitted += 1

    def finish_step(self, gradients: Sequence[Any]) -> list[torch.Tensor] | None:
        """Collective: return the reduced gradients; None if others than these have arrived."""
        is_complete = self._is_armed and self._submitted == len(self._parts.positions)
        self._is_armed = False
        if not is_complete or len(gradients) != len(self._parameters):
            return None
        for position, (arrived, version) in self._gradients.items():
            if gradients[position] is not arrived or arrived._version != version:
                return None
        reduction = self._reduction()
        reduced = self._parts.finish(self._token)
        results = [
            reduction._decompressed(array, *self._pairs[position])
            for position, array in enumerate(reduced)
        ]
        self._gradients.clear()
        self._pairs.clear()
        return results


def _remove_all(hooks: Sequence[Any]) -> None:
    for hook in hooks:
        hook.remove()


def _are_of(gradients: Sequence[Any], parameters: Sequence[torch.Tensor]) -> bool:
    """Tell whether these are the dense gradients that autograd has given to the parameters."""
    return all(
        gradient is not None and not gradient.is_sparse and gradient is parameter.grad
        for gradient, parameter in zip(gradients, parameters)
    )


def divided(gradient: torch.Tensor, process_set: ProcessSet) -> torch.Tensor:
    """Return the gradient divided by the number of ranks."""
    return gradient / process_set.size()


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
