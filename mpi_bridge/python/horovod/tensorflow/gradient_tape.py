# SPDX-License-Identifier: Apache-2.0
"""tf.GradientTape whose gradients are reduced over all ranks."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .._keras import gradient_settings
from .._keras.local_gradients import LocalVariables, layers_of
from ..common.process_sets import ProcessSet, global_process_set
from ..common.reduce_ops import Average, ReduceOp
from .compression import Compression, Compressor
from .functions import tensorflow_variable
from .gradients import GradientReduction, divided


class _DistributedMixin:
    """Precedes the class of the user's tape among the bases."""

    _reduction: GradientReduction
    _local: LocalVariables
    _process_set: ProcessSet

    def gradient(self, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        """Collective: return the gradients, reduced over all ranks."""
        gradients = super().gradient(target, sources, *args, **kwargs)
        variables = [tensorflow_variable(source) for source in tf.nest.flatten(sources)]
        reduced = self._local.reduce_others(
            # tf.nest.flatten keeps a tf.IndexedSlices together as one gradient.
            tf.nest.flatten(gradients),
            variables,
            self._reduction,
            lambda gradient: divided(gradient, self._process_set),
        )
        return tf.nest.pack_sequence_as(sources, reduced)

    def register_local_source(self, source: Any) -> None:
        """Return the gradient of this source as it is on this rank."""
        self._local.add([tensorflow_variable(source)])


def DistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> tf.GradientTape:
    """Return a tape with the contents of `gradtape`, whose gradient() reduces over all ranks.

    `device_dense` and `device_sparse` are accepted and have no meaning.
    """
    settings = gradient_settings.checked(
        compression=compression,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        sparse_as_dense=sparse_as_dense,
        num_groups=num_groups,
        groups=_with_tensorflow_variables(groups),
        process_set=process_set,
    )
    base = type(gradtape)
    tape = object.__new__(type(base.__name__, (_DistributedMixin, base), {}))
    tape.__dict__.update(gradtape.__dict__)
    tape._reduction = GradientReduction("DistributedGradientTape", settings)
    tape._local = LocalVariables(scale_local_gradients)
    tape._process_set = process_set
    return tape


def PartialDistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> tf.GradientTape:
    """Return a DistributedGradientTape that does not reduce the gradients of `local_layers`."""
    tape = DistributedGradientTape(
        gradtape,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    for layer in layers_of(local_layers):
        for variable in layer.trainable_weights:
            tape.register_local_source(variable)
    return tape


def _with_tensorflow_variables(groups: Any) -> Any:
    if not isinstance(groups, (list, tuple)):
        return groups
    return [
        [tensorflow_variable(variable) for variable in group]
        if isinstance(group, (list, tuple))
        else group
        for group in groups
    ]
