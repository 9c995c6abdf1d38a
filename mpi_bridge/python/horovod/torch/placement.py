# SPDX-License-Identifier: Apache-2.0
"""Which way a tensor goes to the engine.

CUDA tensors are handed over where they are. The engine knows one CUDA device in each process; it is
the device of the first CUDA tensor. Tensors of other accelerators and of further CUDA devices are
copied to host memory, as are all if MPI_BRIDGE_GPU_PATH is "host". The ranks must come to the same
answer for an operation: one that is in CUDA memory on one rank and in host memory on another fails
on both.
"""

from __future__ import annotations

import enum
import os
import threading
import warnings
from dataclasses import dataclass

import torch

from mpi_bridge import world


class Way(enum.Enum):
    """How the engine gets at a tensor's elements."""

    HOST = enum.auto()  # they are in host memory
    DEVICE = enum.auto()  # they are in CUDA memory, which the engine works on
    STAGED = enum.auto()  # they are copied to host memory


@dataclass(frozen=True)
class Decision:
    """A way, and why it is not a shorter one ("" if it is the shortest)."""

    way: Way
    reason: str = ""


def decide(
    device_type: str, index: int | None, engine_device: int | None, is_cuda: bool, path: str
) -> Decision:
    """Return the way of tensors on a device.

    `engine_device` is the index of the engine's device if it has one. `is_cuda` says that torch
    calls CUDA devices, and not ROCm's, "cuda". `path` is MPI_BRIDGE_GPU_PATH.
    """
    if device_type == "cpu":
        return Decision(Way.HOST)
    if device_type != "cuda" or not is_cuda:
        name = "ROCm" if device_type == "cuda" else device_type
        return Decision(Way.STAGED, f"tensors on {name} devices are not supported there")
    if path == "host":
        return Decision(Way.STAGED, "MPI_BRIDGE_GPU_PATH=host asks for it")
    if engine_device is not None and index != engine_device:
        return Decision(
            Way.STAGED,
            f"a process has one CUDA device for its collectives, here cuda:{engine_device}, and "
            f"this tensor is on cuda:{index}",
        )
    return Decision(Way.DEVICE)


_lock = threading.Lock()
_said: set[str] = set()
_engine_device: tuple[int, int] | None = None  # the session of world.init(), and the index


def way_of(tensor: torch.Tensor) -> Way:
    """Return the way of one tensor. The first CUDA tensor decides on the engine's device."""
    device = tensor.device
    if device.type == "cpu":
        return Way.HOST
    global _engine_device
    with _lock:
        session = world.session()
        known = _engine_device is not None and _engine_device[0] == session
        decision = decide(
            device.type,
            device.index,
            _engine_device[1] if known else None,
            torch.version.hip is None,
            os.environ.get("MPI_BRIDGE_GPU_PATH", ""),
        )
        if decision.way is Way.DEVICE and not known:
            _engine_device = session, device.index
        is_new = bool(decision.reason) and decision.reason not in _said
        _said.add(decision.reason)
    # One process of each host is enough.
    if is_new and world.local_rank() == 0:
        warnings.warn(
            f"horovod.torch copies tensors to host memory for its collectives: {decision.reason}",
            stacklevel=2,
        )
    return decision.way


def described_tensor(tensor: torch.Tensor) -> str:
    """Return what must be the same on all ranks: the type, the shape and the kind of memory."""
    place = " in CUDA memory" if way_of(tensor) is Way.DEVICE else ""
    return f"{tensor.dtype}{list(tensor.shape)}{place}"


def device_for_received(candidates: list[torch.Tensor]) -> torch.device:
    """Return the device for a tensor that another rank has in CUDA memory.

    It is that of the first of these tensors that the engine works on in CUDA memory, else the
    engine's or torch's current one.
    """
    for tensor in candidates:
        if way_of(tensor) is Way.DEVICE:
            return tensor.device
    with _lock:
        if _engine_device is not None and _engine_device[0] == world.session():
            return torch.device("cuda", _engine_device[1])
    return torch.device("cuda", torch.cuda.current_device())
