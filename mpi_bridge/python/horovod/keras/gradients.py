# SPDX-License-Identifier: Apache-2.0
"""Reduces a list of gradients inside a Keras training step, on the TensorFlow or torch backend.

In a TensorFlow graph one stateful operation carries all gradients, so that every rank starts its
reductions in the same order however TensorFlow schedules the rest of the step.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Callable

import keras

import mpi_bridge

from ..common.reduce_ops import ReduceOp
from ..common.unsupported import not_supported
from .compression import NoneCompressor

GradientReduction = Callable[[Sequence[Any], Sequence[str]], list[Any]]


def reduction(
    op: ReduceOp,
    compression: type[NoneCompressor],
    predivide_factor: float,
    sparse_as_dense: bool,
) -> GradientReduction:
    """Return the function that reduces gradients, given with the names of their variables."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        return _TensorFlowReduction(op, compression, predivide_factor, sparse_as_dense)
    if backend == "torch":
        return _TorchReduction(op, compression, predivide_factor)
    raise not_supported(
        f"the Keras backend {backend!r} in DistributedOptimizer",
        "set KERAS_BACKEND to tensorflow or torch",
    )


def _refuse_compiled_step() -> None:
    """Raise a clear error where XLA would fail on the reduction with an obscure one."""
    frame = sys._getframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if frame.f_code.co_name == "train_step" and getattr(owner, "jit_compile", False) is True:
            raise not_supported(
                "DistributedOptimizer in a training step compiled by XLA",
                "pass jit_compile=False to model.compile(), or give model.fit() the "
                "BroadcastGlobalVariablesCallback, which turns it off",
            )
        frame = frame.f_back


class _TensorFlowReduction:
    def __init__(
        self,
        op: ReduceOp,
        compression: type[NoneCompressor],
        predivide_factor: float,
        sparse_as_dense: bool,
    ) -> None:
        self._op = op
        self._compression = compression
        self._predivide_factor = predivide_factor
        self._sparse_as_dense = sparse_as_dense
        self._fused: dict[tuple[str, ...], Any] = {}

    def __call__(self, gradients: Sequence[Any], names: Sequence[str]) -> list[Any]:
        import tensorflow as tf

        present = [i for i, gradient in enumerate(gradients) if gradient is not None]
        if not present:
            return list(gradients)
        dense = [self._dense(gradients[i], names[i]) for i in present]
        fused = self._fused_for(tuple(names[i] for i in present))
        if tf.executing_eagerly():
            arrays = fused(*(tensor.numpy() for tensor in dense))
            reduced = [tf.convert_to_tensor(array) for array in arrays]
        else:
            _refuse_compiled_step()
            reduced = tf.numpy_function(fused, dense, [tensor.dtype for tensor in dense])
            for tensor, source in zip(reduced, dense):
                tensor.set_shape(source.shape)
        results = list(gradients)
        for position, tensor in zip(present, reduced):
            results[position] = tensor
        return results

    def _dense(self, gradient: Any, name: str) -> Any:
        import tensorflow as tf

        if isinstance(gradient, tf.IndexedSlices) and not self._sparse_as_dense:
            raise not_supported(
                f"the sparse gradient of {name}",
                "pass sparse_as_dense=True to DistributedOptimizer",
            )
        return tf.convert_to_tensor(gradient)

    def _fused_for(self, names: tuple[str, ...]) -> Any:
        from ..common.numpy_arrays import FusedAllreduce

        if names not in self._fused:
            self._fused[names] = FusedAllreduce(
                names, self._op, self._compression.wire_dtype, self._predivide_factor
            )
        return self._fused[names]


class _TorchReduction:
    def __init__(
        self, op: ReduceOp, compression: type[NoneCompressor], predivide_factor: float
    ) -> None:
        self._op = op
        self._wire_dtype = compression.wire_dtype
        self._predivide_factor = predivide_factor
        self._fused: dict[tuple[Any, ...], Any] = {}

    def __call__(self, gradients: Sequence[Any], names: Sequence[str]) -> list[Any]:
        present = [i for i, gradient in enumerate(gradients) if gradient is not None]
        if not present:
            return list(gradients)
        layout = tuple((names[i], gradients[i].shape, gradients[i].dtype) for i in present)
        if layout not in self._fused:
            self._fused[layout] = self._make(layout)
        reduced = self._fused[layout]([gradients[i] for i in present])
        results = list(gradients)
        for position, tensor in zip(present, reduced):
            results[position] = tensor.to(gradients[position], copy=True)
        return results

    def _make(self, layout: tuple[Any, ...]) -> Any:
        import torch

        from ..torch.fusion import FusedAllreduce

        def travels_as(dtype: torch.dtype) -> torch.dtype:
            is_cast = self._wire_dtype is not None and dtype.is_floating_point
            return getattr(torch, self._wire_dtype) if is_cast else dtype

        return FusedAllreduce(layout, travels_as, self._op, self._predivide_factor)


def broadcast_variables(what: str, variables: Sequence[Any], root_rank: int) -> None:
    """Collective: assign the root's values to Keras variables."""
    from ..common.numpy_arrays import broadcast_all

    if not variables:
        return
    arrays = [keras.ops.convert_to_numpy(variable.value) for variable in variables]
    names = [variable.path for variable in variables]
    received = broadcast_all(what, names, arrays, root_rank)
    if mpi_bridge.rank() != root_rank:
        for variable, array in zip(variables, received):
            variable.assign(array)
