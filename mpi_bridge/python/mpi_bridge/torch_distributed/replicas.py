# SPDX-License-Identifier: Apache-2.0
"""MPI_BRIDGE_CHECK_REPLICAS for DistributedDataParallel over a group of mpi_bridge.

The parameters are compared before a forward pass whose gradients are to be reduced, and so after
the optimizer's step that precedes it.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel

from .. import engine, replicas, torch_replicas
from ..replicas import Checks
from . import cpp_backend
from .process_group import EngineBackend, EngineProcessGroup

_is_watching = False
_checks: weakref.WeakKeyDictionary[torch.nn.Module, Checks] = weakref.WeakKeyDictionary()


def watch() -> None:
    """Compare the models of this process from now on, if the variable says so."""
    global _is_watching
    if not _is_watching and replicas.interval() > 0:
        register_module_forward_pre_hook(_before_forward)
        _is_watching = True


def require_same_interval() -> None:
    """Collective over all ranks: raise MismatchError if the variable is not the same on them."""
    Checks("DistributedDataParallel", engine.WORLD).require_same_interval()


def _before_forward(module: torch.nn.Module, _inputs: Any) -> None:
    if not isinstance(module, DistributedDataParallel) or not _is_reduced(module):
        return
    ignored = module.parameters_to_ignore
    named = {p: name for name, p in module.module.named_parameters() if name not in ignored}
    if not named:
        return
    if module not in _checks:
        number = _process_set_of(module, next(iter(named)).device)
        if number is None:
            return
        what = f"DistributedDataParallel of {type(module.module).__name__}"
        _checks[module] = Checks(what, number, at_begin=True)
    if _checks[module].is_due():
        torch_replicas.compare(_checks[module], named)


def _is_reduced(module: DistributedDataParallel) -> bool:
    """Tell whether all ranks do this pass, and reduce the gradients of it."""
    joins = getattr(getattr(module, "_join_config", None), "enable", False)
    return (
        module.training
        and torch.is_grad_enabled()
        and module.require_backward_grad_sync
        and not joins
    )


def _process_set_of(module: DistributedDataParallel, device: torch.device) -> int | None:
    """Return the number of the process set; None if the group is another backend's."""
    group: Any = module.process_group
    return None if group.size() == 1 else process_set_of(group, device)


def process_set_of(group: Any, device: torch.device) -> int | None:
    """Return the number of a group's process set; None if its backend is another one."""
    if not isinstance(group, EngineProcessGroup):
        group = group._get_backend(device)
    if isinstance(group, (EngineProcessGroup, EngineBackend)):
        return group._set.number
    in_native_code = cpp_backend.module()
    return None if in_native_code is None else in_native_code.process_set_of(group)
