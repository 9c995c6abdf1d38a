# SPDX-License-Identifier: Apache-2.0
"""Brings all ranks to the same starting point, and sends Python objects."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from mpi_bridge import objects, rank

from ..common.agreement import require_same
from ..common.handles import Together
from ..common.process_sets import ProcessSet, global_process_set, number_of
from . import tensors
from .placement import Way, described_tensor, device_for_received, way_of
from .tensors import Place


def _broadcast_all(
    what: str, named: list[tuple[str, torch.Tensor]], root_rank: int, process_set: ProcessSet
) -> None:
    """Overwrite tensors with the root's, once all ranks agree on the list of tensors."""
    described = ", ".join(f"{name}:{described_tensor(tensor)}" for name, tensor in named)
    require_same(what, described, number_of(process_set))
    Together(
        [
            tensors.broadcast(tensor, tensor, root_rank, Place(f"{what}.{name}", process_set))
            for name, tensor in named
        ]
    ).finish()


def broadcast_parameters(
    params: Mapping[str, Any] | Iterable[tuple[str, Any] | torch.Tensor],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Overwrite tensors with the root's: those of a state_dict(), named_parameters(), parameters().

    Tensors without names are taken in their order, which must be the same on all ranks.
    """
    if isinstance(params, Mapping):
        pairs = sorted(params.items())
    else:
        pairs = [
            (str(position), each) if isinstance(each, torch.Tensor) else each
            for position, each in enumerate(params)
        ]
    named = []
    for name, value in pairs:
        if value is None:
            continue
        if not isinstance(value, torch.Tensor):
            raise TypeError(
                f"broadcast_parameters: {name} is not a tensor but {type(value).__name__}; "
                "send it with broadcast_object"
            )
        named.append((name, value))
    _broadcast_all("broadcast_parameters", named, root_rank, process_set)


class _WithoutTensors(pickle.Pickler):
    """Leaves out tensors and collects them."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream)
        self.tensors: list[torch.Tensor] = []

    def persistent_id(self, value: Any) -> Any:
        # The momentum of a sparse gradient is sparse too; it stays in the pickled object.
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            return None
        self.tensors.append(value.detach())
        return value.dtype, tuple(value.shape), way_of(value) is Way.DEVICE


class _WithEmptyTensors(pickle.Unpickler):
    """Puts new tensors in the places of the omitted ones, in the same kind of memory.

    `like` are tensors of this rank, which show what device it uses.
    """

    def __init__(self, stream: io.BytesIO, like: list[torch.Tensor]) -> None:
        super().__init__(stream)
        self._like = like
        self.tensors: list[torch.Tensor] = []

    def persistent_load(self, description: Any) -> torch.Tensor:
        dtype, shape, on_device = description
        device = device_for_received(self._like) if on_device else torch.device("cpu")
        self.tensors.append(torch.empty(shape, dtype=dtype, device=device))
        return self.tensors[-1]


def _set_gradients_to_zero(optimizer: torch.optim.Optimizer, model: torch.nn.Module | None) -> None:
    embeddings = [] if model is None else model.modules()
    sparse = {
        parameter
        for module in embeddings
        if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.sparse
        for parameter in module.parameters()
    }
    all_sparse = isinstance(optimizer, torch.optim.SparseAdam)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter, requires_grad=False)
                if all_sparse or parameter in sparse:
                    parameter.grad = parameter.grad.to_sparse(1)


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: torch.nn.Module | None = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Overwrite the optimizer's state and its groups' settings with the root's.

    This works for every optimizer, even if the root or another rank has no state yet. The tensors
    travel separately, and the rest as an object. On a rank whose optimizer has no state yet, the
    gradients are zeros afterwards, as in Horovod; those of the sparse embeddings of `model`, and
    all those of SparseAdam, are sparse.
    """
    if not optimizer.state:
        _set_gradients_to_zero(optimizer, model)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state = broadcast_state(
        optimizer.state_dict(), root_rank, process_set, parameters, "broadcast_optimizer_state"
    )
    if rank() != root_rank:
        optimizer.load_state_dict(state)


def broadcast_state(
    state: Any,
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    like: Sequence[torch.Tensor] = (),
    what: str = "broadcast_state",
) -> Any:
    """Return the root's state_dict(); its tensors travel separately, and the rest as an object.

    Tensors of a GPU arrive on the device of `like` or of this rank's own state, or on the current
    one.
    """
    is_root = rank() == root_rank
    stream = io.BytesIO()
    pickler = _WithoutTensors(stream)
    pickler.dump(state)
    found = pickler.tensors
    skeleton = broadcast_object(stream.getvalue(), root_rank, process_set=process_set)
    if not is_root:
        unpickler = _WithEmptyTensors(io.BytesIO(skeleton), [*like, *found])
        state, found = unpickler.load(), unpickler.tensors
    named = [(str(position), tensor) for position, tensor in enumerate(found)]
    _broadcast_all(what, named, root_rank, process_set)
    return state


def broadcast_object(
    obj: Any = None,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the root's object on every rank."""
    return objects.broadcast_object(obj, root_rank, number_of(process_set), name)


def allgather_object(
    obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Return every rank's object, in the order of ranks."""
    return objects.allgather_object(obj, number_of(process_set), name)
