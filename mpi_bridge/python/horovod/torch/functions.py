# SPDX-License-Identifier: Apache-2.0
"""Bringing all ranks to the same starting point."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any

import torch

import mpi_bridge

from ..common.process_sets import global_process_set, require_global
from .fusion import FusedTensors


def broadcast_parameters(
    params: Mapping[str, Any] | Iterable[tuple[str, Any]],
    root_rank: int,
    process_set: Any = global_process_set,
) -> None:
    """Overwrite tensors with the root's: model.state_dict() or model.named_parameters()."""
    require_global(process_set)
    pairs = sorted(params.items()) if isinstance(params, Mapping) else list(params)
    tensors = []
    for name, value in pairs:
        if value is None:
            continue
        if not isinstance(value, torch.Tensor):
            raise TypeError(
                f"broadcast_parameters: {name} is no tensor but {type(value).__name__}; "
                "send it with broadcast_object"
            )
        tensors.append((name, value))
    if not tensors:
        return
    fused = FusedTensors(
        "broadcast_parameters", [(name, tensor.shape, tensor.dtype) for name, tensor in tensors]
    )
    with torch.no_grad():
        if mpi_bridge.rank() == root_rank:
            for view, (_, tensor) in zip(fused.views, tensors):
                view.copy_(tensor)
        fused.broadcast(root_rank)
        if mpi_bridge.rank() != root_rank:
            for view, (_, tensor) in zip(fused.views, tensors):
                tensor.copy_(view)


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: torch.nn.Module | None = None,
    process_set: Any = global_process_set,
) -> None:
    """Overwrite the optimizer's state and its groups' settings with the root's."""
    require_global(process_set)
    is_root = mpi_bridge.rank() == root_rank
    payload = None
    if is_root:
        stream = io.BytesIO()
        torch.save(optimizer.state_dict(), stream)
        payload = stream.getvalue()
    payload = mpi_bridge.broadcast_object(payload, root_rank)
    if not is_root:
        # Sent by a rank of this job; the state may hold any object that its optimizer put there.
        state = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=False)
        optimizer.load_state_dict(state)


def broadcast_object(
    obj: Any = None,
    root_rank: int = 0,
    name: str | None = None,
    process_set: Any = global_process_set,
) -> Any:
    """Return the root's object on every rank."""
    require_global(process_set)
    return mpi_bridge.broadcast_object(obj, root_rank)


def allgather_object(
    obj: Any, name: str | None = None, process_set: Any = global_process_set
) -> list[Any]:
    """Return every rank's object, in the order of ranks."""
    require_global(process_set)
    return mpi_bridge.allgather_object(obj)
