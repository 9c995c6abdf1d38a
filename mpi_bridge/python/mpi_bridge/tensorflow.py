# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow under the name mpi_bridge: `import mpi_bridge.tensorflow as hvd`."""

from . import names as _names

_package = _names.load("tensorflow")
globals().update({_name: getattr(_package, _name) for _name in _package.__all__})
__all__ = list(_package.__all__)
