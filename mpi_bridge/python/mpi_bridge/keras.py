# SPDX-License-Identifier: Apache-2.0
"""horovod.keras under the name mpi_bridge: `import mpi_bridge.keras as hvd`."""

from . import names as _names

_package = _names.load("keras")
globals().update({_name: getattr(_package, _name) for _name in _package.__all__})
__all__ = list(_package.__all__)
