# SPDX-License-Identifier: Apache-2.0
"""The output of `horovodrun --check-build`."""

from __future__ import annotations

import importlib.util

import horovod
from mpi_bridge import LibraryNotFoundError, world

from ..common import basics

_FRAMEWORKS = (("TensorFlow", "tensorflow"), ("Keras", "keras"), ("PyTorch", "torch"))


def _line(is_there: bool, what: str) -> str:
    return f"    [{'X' if is_there else ' '}] {what}"


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _has_nccl() -> bool:
    """Tell whether NCCL can be used, by the only framework here whose tensors go through it."""
    if not _is_installed("torch"):
        return False
    from ..torch.placement import nccl_built

    return bool(nccl_built())


def report() -> tuple[str, bool]:
    """Return the text, and whether the library was found."""
    try:
        library, is_there = f"libmpi_bridge {world.version()}", True
    except LibraryNotFoundError as error:
        library, is_there = str(error), False
    lines = [
        f"Horovod v{horovod.__version__}:",
        "",
        "Available Frameworks:",
        *(_line(_is_installed(module), name) for name, module in _FRAMEWORKS),
        _line(False, "MXNet"),
        "",
        "Available Controllers:",
        _line(is_there, "PMIx (srun --mpi=pmix)"),
        _line(basics.mpi_built(), "MPI"),
        _line(basics.gloo_built(), "Gloo"),
        "",
        "Available Tensor Operations:",
        _line(is_there, "mpi_bridge (shared memory, UCX)"),
        _line(is_there and _has_nccl(), "NCCL"),
        _line(basics.ddl_built(), "DDL"),
        _line(basics.ccl_built(), "CCL"),
        _line(basics.mpi_built(), "MPI"),
        _line(basics.gloo_built(), "Gloo"),
        "",
        f"Library: {library}",
    ]
    return "\n".join(lines), is_there
