# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer for Keras optimizers and for those of tf.compat.v1.train."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from .._keras import gradient_settings, interface
from .._keras.local_gradients import LocalVariables
from ..common.process_sets import ProcessSet, global_process_set
from ..common.reduce_ops import Average, ReduceOp
from ..common.unsupported import not_supported
from .compression import Compression, Compressor
from .gradients import GradientReduction, divided


class _DistributedOptimizer(tf.compat.v1.train.Optimizer):
    """Reduces what compute_gradients() of the user's optimizer returns."""

    def __init__(
        self,
        optimizer: tf.compat.v1.train.Optimizer,
        name: str | None,
        use_locking: bool,
        settings: gradient_settings.GradientSettings,
        scale_local_gradients: bool,
    ) -> None:
        super().__init__(use_locking, name or f"Distributed{type(optimizer).__name__}")
        self._optimizer = optimizer
        self._reduction = GradientReduction("DistributedOptimizer", settings)
        self._local = LocalVariables(scale_local_gradients)
        self._process_set = settings.process_set

    def register_local_var(self, variable: Any) -> None:
        """Return the gradient of this variable as it is on this rank."""
        self._local.add([variable])

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Collective: return pairs of a reduced gradient and its variable."""
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        gradients, variables = zip(*pairs)
        reduced = self._local.reduce_others(
            gradients,
            variables,
            self._reduction,
            lambda gradient: divided(gradient, self._process_set),
        )
        return list(zip(reduced, variables))

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Call the user's optimizer."""
        return self._optimizer.apply_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Call the user's optimizer."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """Call the user's optimizer."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        """Call the user's optimizer."""
        return self._optimizer.variables(*args, **kwargs)


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Return an optimizer that reduces gradients over all ranks before it applies them.

    `optimizer` is one of Keras 3 (see horovod.tensorflow.keras.DistributedOptimizer) or of
    tf.compat.v1.train. `device_dense` and `device_sparse` are accepted and have no meaning.
    """
    if isinstance(optimizer, keras.optimizers.Optimizer):
        return interface.DistributedOptimizer(
            optimizer,
            name,
            compression=compression,
            sparse_as_dense=sparse_as_dense,
            gradient_predivide_factor=gradient_predivide_factor,
            op=op,
            backward_passes_per_step=backward_passes_per_step,
            average_aggregated_gradients=average_aggregated_gradients,
            num_groups=num_groups,
            groups=groups,
            process_set=process_set,
            scale_local_gradients=scale_local_gradients,
        )
    if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
        raise TypeError(
            "DistributedOptimizer needs an optimizer of Keras 3 or of tf.compat.v1.train, not "
            f"{type(optimizer).__name__}"
        )
    if backward_passes_per_step != 1:
        raise not_supported(
            "backward_passes_per_step with an optimizer of tf.compat.v1.train",
            "use a Keras optimizer",
        )
    settings = gradient_settings.checked(
        compression=compression,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        sparse_as_dense=sparse_as_dense,
        num_groups=num_groups,
        groups=groups,
        process_set=process_set,
    )
    return _DistributedOptimizer(optimizer, name, use_locking, settings, scale_local_gradients)
