# SPDX-License-Identifier: Apache-2.0
"""The framework packages under the name mpi_bridge: mpi_bridge.torch is horovod.torch, etc."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

# Submodules that scripts import directly, as in `import horovod.tensorflow.keras as hvd`.
_SUBMODULES = {
    "torch": ("elastic",),
    "tensorflow": ("elastic", "keras", "keras.callbacks", "keras.elastic"),
    "keras": ("callbacks", "elastic"),
}


def load(package: str) -> ModuleType:
    """Return horovod.PACKAGE, if the horovod that Python finds is the one beside this package.

    For mpi_bridge.PACKAGE, to which it adds the submodules.
    """
    import horovod

    if "mpibridge" not in getattr(horovod, "__version__", ""):
        raise ImportError(
            f"mpi_bridge.{package} needs the horovod package that came with mpi_bridge, but "
            f"Python finds {horovod.__file__}; put mpi_bridge before it on the path"
        )
    module = importlib.import_module(f"horovod.{package}")
    for name in _SUBMODULES[package]:
        # Both names must refer to the same objects, because a second copy would have its own state.
        submodule = importlib.import_module(f"horovod.{package}.{name}")
        sys.modules[f"mpi_bridge.{package}.{name}"] = submodule
        if "." not in name:
            setattr(sys.modules[f"mpi_bridge.{package}"], name, submodule)
    return module
