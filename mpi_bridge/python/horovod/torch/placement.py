# SPDX-License-Identifier: Apache-2.0
"""Which way a tensor goes to the engine.

CUDA tensors are handed over where they are. The engine has one CUDA device in each process, and
keeps it (engine.device()); it is the device of the first CUDA tensor. Tensors of other accelerators
and of further CUDA devices are copied to host memory, as are all if MPI_BRIDGE_GPU_PATH is "host".
The ranks must come to the same answer for an operation: one that is in CUDA memory on one rank and
in host memory on another fails on both.
"""

from __future__ import annotations

import enum
import os
import threading
import warnings
from dataclasses import dataclass

import torch

from mpi_bridge import InvalidArgumentError, engine, world


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

    `engine_device` is the index of the engine's device, -1 for host memory, or None if it is not
    decided yet. `is_cuda` says that torch
    calls CUDA devices, and not ROCm's, "cuda". `path` is MPI_BRIDGE_GPU_PATH.
    """
    if device_type == "cpu":
        return Decision(Way.HOST)
    if device_type != "cuda" or not is_cuda:
        name = "ROCm" if device_type == "cuda" else device_type
        return Decision(Way.STAGED, f"tensors on {name} devices are not supported there")
    if path == "host":
        return Decision(Way.STAGED, "MPI_BRIDGE_GPU_PATH=host asks for it")
    if engine_device == -1:
        return Decision(Way.STAGED, "the program has said that its tensors are in host memory")
    if engine_device is not None and index != engine_device:
        return Decision(
            Way.STAGED,
            f"a process has one CUDA device for its collectives, here cuda:{engine_device}, and "
            f"this tensor is on cuda:{index}",
        )
    return Decision(Way.DEVICE)


_lock = threading.Lock()
_said: set[str] = set()


def _decide_for(device: torch.device) -> Decision:
    path = os.environ.get("MPI_BRIDGE_GPU_PATH", "")
    is_cuda = torch.version.hip is None
    while True:
        known = engine.device()
        decision = decide(device.type, device.index, known, is_cuda, path)
        if decision.way is not Way.DEVICE or known is not None:
            return decision
        try:
            engine.set_device(device.index)
        except InvalidArgumentError:
            # Another thread may have been first, with another device.
            if engine.device() is None:
                raise


def way_of(tensor: torch.Tensor) -> Way:
    """Return the way of one tensor. The first CUDA tensor decides on the engine's device."""
    if tensor.is_cpu:  # much faster than to ask for the device
        return Way.HOST
    decision = _decide_for(tensor.device)
    if not decision.reason:
        return decision.way
    with _lock:
        is_new = decision.reason not in _said
        _said.add(decision.reason)
    # One process of each host is enough.
    if is_new and world.local_rank() == 0:
        warnings.warn(
            f"horovod.torch copies tensors to host memory for its collectives: {decision.reason}",
            stacklevel=2,
        )
    return decision.way


def expect_device(index: int) -> None:
    """Say that this rank's tensors are on a CUDA device, before it has had one; -1 says nothing."""
    if index >= 0 and torch.cuda.is_available() and engine.device() is None:
        engine.set_device(index)


def nccl_built() -> int:
    """Return the version code of NCCL (22809 is 2.28.9), 0 if tensors cannot go through it here.

    That is so if torch was built without CUDA, if there is no driver or no NCCL 2.20, and if
    MPI_BRIDGE_GPU_PATH excludes NCCL. CUDA is not initialised.
    """
    path = os.environ.get("MPI_BRIDGE_GPU_PATH", "")
    if torch.version.cuda is None or path in ("host", "staged"):
        return 0
    return engine.nccl_version()


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
    known = engine.device()
    index = known if known is not None and known >= 0 else torch.cuda.current_device()
    return torch.device("cuda", index)
