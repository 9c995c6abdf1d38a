# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: any Keras optimizer, applying gradients averaged over all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from ..common import reduce_ops
from ..common.process_sets import global_process_set, require_global
from ..common.reduce_ops import Average, Sum
from ..common.unsupported import not_supported
from .compression import Compression, NoneCompressor
from .gradients import GradientReduction, reduction


class _DistributedMixin:
    """Comes before the user's optimizer class in the class that DistributedOptimizer makes."""

    # Set on the instance past Keras' own attribute tracking; see _attach().
    _gradient_reduction: GradientReduction

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> None:
        """Collective: reduce the gradients over all ranks, then apply them."""
        if trainable_variables is None:
            variables = self._trainable_variables
        else:
            variables = trainable_variables = list(trainable_variables)
        names = [variable.path for variable in variables]
        super().apply(self._gradient_reduction(list(grads), names), trainable_variables)


def is_distributed(optimizer: Any) -> bool:
    """Tell whether DistributedOptimizer made this optimizer, or the one that it wraps."""
    return isinstance(optimizer, _DistributedMixin) or isinstance(
        getattr(optimizer, "inner_optimizer", None), _DistributedMixin
    )


def _attach(optimizer: Any, reduce: GradientReduction) -> None:
    # Keras tracks what is assigned to an optimizer, to save and to name it; this is no state.
    object.__setattr__(optimizer, "_gradient_reduction", reduce)


def _check_unsupported(
    num_groups: int, groups: Any, backward_passes_per_step: int, op: int, predivide: float
) -> None:
    if num_groups or groups is not None:
        raise not_supported(
            "DistributedOptimizer(groups=...)", "leave it out; all gradients are fused already"
        )
    if backward_passes_per_step != 1:
        raise not_supported(
            "backward_passes_per_step in horovod.keras",
            "pass gradient_accumulation_steps to the Keras optimizer",
        )
    if op not in (Average, Sum):
        raise ValueError("DistributedOptimizer reduces with Average or Sum")
    if predivide != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor needs op=Average")


def DistributedOptimizer(
    optimizer: keras.optimizers.Optimizer,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[NoneCompressor] = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    num_groups: int = 0,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    groups: Any = None,
    process_set: Any = global_process_set,
    scale_local_gradients: bool = True,
) -> keras.optimizers.Optimizer:
    """Return an optimizer of a subclass of `optimizer`'s class that reduces gradients first.

    It is made from the configuration of `optimizer` and takes over its slots if it has any. Its
    class has the name of the user's class, so that a saved model loads without this package.
    device_dense, device_sparse, average_aggregated_gradients and scale_local_gradients are
    accepted for compatibility; gradients travel through host memory.
    """
    require_global(process_set)
    _check_unsupported(num_groups, groups, backward_passes_per_step, op, gradient_predivide_factor)
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise TypeError(
            f"DistributedOptimizer needs a Keras 3 optimizer, not {type(optimizer).__name__}"
        )
    if is_distributed(optimizer):
        raise ValueError("this optimizer is distributed already")
    reduce = reduction(
        reduce_ops.resolve(op), compression, gradient_predivide_factor, sparse_as_dense
    )
    base = type(optimizer)
    subclass = type(base.__name__, (_DistributedMixin, base), {"__module__": base.__module__})
    config = optimizer.get_config()
    if name is not None:
        config["name"] = name
    distributed = subclass.from_config(config)
    _attach(distributed, reduce)
    # Keras builds the optimizer of a model read from HDF5 on no variables at all; such a one has
    # nothing to take over and would refuse the model's variables.
    if optimizer.built and optimizer._trainable_variables:
        distributed.build(optimizer._trainable_variables)
        for target, source in zip(distributed.variables, optimizer.variables):
            target.assign(source)
    return distributed
