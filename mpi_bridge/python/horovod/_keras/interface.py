# SPDX-License-Identifier: Apache-2.0
"""The functions of horovod.keras and horovod.tensorflow.keras that make things distributed."""

from __future__ import annotations

import functools
import pathlib
from typing import Any

import keras

from ..common.process_sets import ProcessSet, global_process_set
from ..common.reduce_ops import Average
from . import gradient_settings
from .compression import Compression
from .optimizer import Distribution, distributed, is_distributed
from .variables import broadcast_model


def DistributedOptimizer(
    optimizer: keras.optimizers.Optimizer,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> keras.optimizers.Optimizer:
    """Return an optimizer of a subclass of `optimizer`'s class that reduces gradients first.

    It is made from the configuration of `optimizer` and takes over its slots if it has any. Its
    class has the name of the user's class, so that a saved model loads without this package. What
    from_config() of that class returns reduces gradients with the same options.

    With backward_passes_per_step > 1, the gradients of that many batches are added up (and divided
    by their number with average_aggregated_gradients) before they are reduced and applied; the
    batches in between count as iterations. `device_dense` and `device_sparse` are accepted and have
    no meaning.
    """
    settings = gradient_settings.checked(
        compression=compression,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        sparse_as_dense=sparse_as_dense,
        num_groups=num_groups,
        groups=groups,
        process_set=process_set,
    )
    make_distribution = functools.partial(
        Distribution,
        settings,
        backward_passes_per_step,
        average_aggregated_gradients,
        scale_local_gradients,
    )
    return distributed(optimizer, make_distribution, name)


def PartialDistributedOptimizer(
    optimizer: keras.optimizers.Optimizer,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> keras.optimizers.Optimizer:
    """Return a DistributedOptimizer that does not reduce the gradients of `local_layers`.

    These are what the layers train at each step, also if they are built or unfrozen later. With
    scale_local_gradients these gradients are divided by the number of ranks.
    """
    made = DistributedOptimizer(
        optimizer,
        name,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        gradient_predivide_factor,
        op,
        backward_passes_per_step,
        average_aggregated_gradients,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    made._distribution.local.add_layers(local_layers)
    return made


def broadcast_global_variables(root_rank: int, model: keras.Model | None = None) -> None:
    """Overwrite the weights and the optimizer's state of `model` with the root's.

    Keras 3 keeps no list of all variables, so the model has to be named; the
    BroadcastGlobalVariablesCallback learns it from model.fit().
    """
    if model is None:
        raise ValueError(
            "broadcast_global_variables needs model=: Keras 3 keeps no list of all variables"
        )
    broadcast_model(model, root_rank)


def load_model(
    filepath: Any,
    custom_optimizers: Any = None,
    custom_objects: dict[str, Any] | None = None,
    compression: Any = Compression.none,
    legacy_opts: bool = False,
) -> keras.Model:
    """Load a saved model and make its optimizer distributed, with the saved slots."""
    if legacy_opts:
        raise ValueError("legacy_opts: Keras 3 has no legacy optimizers")
    known = dict(custom_objects or {})
    known.update((optimizer.__name__, optimizer) for optimizer in custom_optimizers or ())
    if isinstance(filepath, pathlib.Path):
        filepath = str(filepath)
    model = keras.models.load_model(filepath, custom_objects=known)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        raise ValueError(f"{filepath} holds no optimizer: it was saved before model.compile()")
    # The classes among custom_objects may be those of distributed optimizers.
    if not is_distributed(optimizer):
        model.optimizer = DistributedOptimizer(optimizer, compression=compression)
        model.train_function = None
    return model
