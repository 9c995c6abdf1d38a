# SPDX-License-Identifier: Apache-2.0
"""The framework packages under our own name: mpi_bridge.torch is horovod.torch, and so on."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

# What scripts import by itself, as in `import horovod.tensorflow.keras as hvd`.
_SUBMODULES = {
    "torch": ("elastic",),
    "tensorflow": ("elastic", "keras", "keras.callbacks", "keras.elastic"),
    "keras": ("callbacks", "elastic"),
}


def load(package: str) -> ModuleType:
    """Return horovod.PACKAGE, if the horovod that Python finds is the one beside this package.

    For mpi_bridge.PACKAGE, which gets its submodules as its own.
    """
    import horovod

    if "mpibridge" not in getattr(horovod, "__version__", ""):
        raise ImportError(
            f"mpi_bridge.{package} needs the horovod package that came with mpi_bridge, but "
            f"Python finds {horovod.__file__}; put mpi_bridge before it on the path"
        )
    module = importlib.import_module(f"horovod.{package}")
    for name in _SUBMODULES[package]:
        # The same objects under both names: a second copy would have a state of its own.
        submodule = importlib.import_module(f"horovod.{package}.{name}")
        sys.modules[f"mpi_bridge.{package}.{name}"] = submodule
        if "." not in name:
            setattr(sys.modules[f"mpi_bridge.{package}"], name, submodule)
    return module
