# SPDX-License-Identifier: Apache-2.0
"""The framework packages under our own name: mpi_bridge.torch is horovod.torch, and so on."""

from __future__ import annotations

import importlib
from types import ModuleType


def load(package: str) -> ModuleType:
    """Return horovod.PACKAGE, if the horovod that Python finds is the one beside this package."""
    import horovod

    if "mpibridge" not in getattr(horovod, "__version__", ""):
        raise ImportError(
            f"mpi_bridge.{package} needs the horovod package that came with mpi_bridge, but "
            f"Python finds {horovod.__file__}; put mpi_bridge before it on the path"
        )
    return importlib.import_module(f"horovod.{package}")
