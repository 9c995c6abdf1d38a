# SPDX-License-Identifier: Apache-2.0
"""allreduce and reducescatter, single and grouped, with compression and sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import tensorflow as tf

from mpi_bridge import process_sets

from .._keras.operations import Reduction
from ..common import reduce_ops
from ..common.process_sets import ProcessSet, global_process_set, number_of
from ..common.reduce_ops import Average, ReduceOp, Sum
from .compression import Compression, Compressor
from .mpi_ops import (
    Tensors,
    allreduce_all,
    gathered_all,
    members_of,
    operation_name,
    reducescatter_all,
)


def _compressed(
    tensors: Sequence[tf.Tensor],
    compression: type[Compressor],
    operation: Callable[[Tensors], Tensors],
) -> Tensors:
    pairs = [compression.compress(tensor) for tensor in tensors]
    results = operation([travelling for travelling, _ in pairs])
    return [compression.decompress(result, context) for result, (_, context) in zip(results, pairs)]


def _allreduce_slices(
    slices: tf.IndexedSlices, reduction: Reduction, name: str | None
) -> tf.IndexedSlices:
    """Join the slices of all ranks, which adds the values of repeated indices."""
    if reduction.op not in (Average, Sum):
        raise NotImplementedError(
            f"op={reduction.op.name.title()} of a tf.IndexedSlices: only Average and Sum are "
            "possible; make it dense by tf.convert_to_tensor()"
        )
    factor = reduction.prescale * reduction.postscale
    is_mean = reduction.op is Average and process_sets.size(reduction.process_set) > 1
    if slices.values.dtype.is_integer and (is_mean or factor != int(factor)):
        # The values of an index are added up later, so what each rank's part lacks would be lost.
        raise NotImplementedError(
            f"a fraction of a tf.IndexedSlices of {slices.values.dtype.name}: use op=Sum without "
            "factors, or make it dense by tf.convert_to_tensor()"
        )
    tensors = [slices.values, slices.indices]
    (values, indices), (rows, _) = gathered_all(tensors, reduction.process_set, name)
    scale = tf.constant(factor, tf.float64)
    if reduction.op is Average:
        scale /= members_of(rows, tf.float64)
    values = values * tf.cast(scale, values.dtype)
    return tf.IndexedSlices(values, indices, dense_shape=slices.dense_shape)


def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> Any:
    """Return a tensor, variable or tf.IndexedSlices reduced over all ranks; op None is Average.

    `device_dense` and `device_sparse` are accepted and have no meaning: tensors travel through
    host memory.
    """
    resolved = reduce_ops.resolve(op, average)
    reduction = Reduction(resolved, prescale_factor, postscale_factor, number_of(process_set))
    if isinstance(tensor, tf.IndexedSlices):
        parts = [tensor.values, tensor.indices]
        name = operation_name("Allreduce", name, parts, ignore_name_scope)
        return _allreduce_slices(tensor, reduction, name)
    tensor = tf.convert_to_tensor(tensor)
    name = operation_name("Allreduce", name, [tensor], ignore_name_scope)
    return _compressed(
        [tensor], compression, lambda inputs: allreduce_all(inputs, reduction, name)
    )[0]


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> list[Any]:
    """Return allreduce() of each tensor; the dense ones all run together or none does."""
    if not tensors:
        return []
    resolved = reduce_ops.resolve(op, average)
    reduction = Reduction(resolved, prescale_factor, postscale_factor, number_of(process_set))
    results: list[Any] = list(tensors)
    dense = [i for i, tensor in enumerate(tensors) if not isinstance(tensor, tf.IndexedSlices)]
    for position in sorted(set(range(len(tensors))) - set(dense)):
        slices = tensors[position]
        own = None if name is None else f"{name}.slices.{position}"
        own = operation_name("Allreduce", own, [slices.values, slices.indices], ignore_name_scope)
        results[position] = _allreduce_slices(slices, reduction, own)
    if dense:
        inputs = [tf.convert_to_tensor(tensors[i]) for i in dense]
        full_name = operation_name("GroupedAllreduce", name, inputs, ignore_name_scope)
        reduced = _compressed(
            inputs, compression, lambda parts: allreduce_all(parts, reduction, full_name)
        )
        for position, tensor in zip(dense, reduced):
            results[position] = tensor
    return results


def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: ReduceOp = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
) -> tf.Tensor:
    """Reduce over all ranks and return this rank's rows; low ranks get the remainder."""
    return grouped_reducescatter(
        [tensor],
        device_dense,
        compression,
        op,
        process_set,
        prescale_factor,
        postscale_factor,
        ignore_name_scope,
        name,
    )[0]


def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> Tensors:
    """Return reducescatter() of each tensor; all run together or none does."""
    if not tensors:
        return []
    resolved = reduce_ops.resolve(op)
    if resolved not in (Average, Sum):
        raise NotImplementedError("reducescatter reduces with Average or Sum")
    inputs = [tf.convert_to_tensor(tensor) for tensor in tensors]
    kind = "Reducescatter" if len(inputs) == 1 else "GroupedReducescatter"
    full_name = operation_name(kind, name, inputs, ignore_name_scope)
    reduction = Reduction(resolved, prescale_factor, postscale_factor, number_of(process_set))
    return _compressed(
        inputs, compression, lambda parts: reducescatter_all(parts, reduction, full_name)
    )
