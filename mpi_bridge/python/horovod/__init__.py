# SPDX-License-Identifier: Apache-2.0
"""Horovod's names over libmpi_bridge: import horovod.torch, horovod.tensorflow or horovod.keras.

Start the script with any PMIx launcher, such as `srun --mpi=pmix`, or with `horovodrun`.
"""

# Scripts compare this with the Horovod release whose interface they need.
__version__ = "0.28.1+mpibridge.0.1.0"

from . import _other

_other_spec = _other.find()
if _other_spec is not None:
    # Before anything of ours, which may need a newer Python than that horovod does.
    _other.load(_other_spec)
else:
    import mpi_bridge as _mpi_bridge  # noqa: F401 - it says so if this Python is too old
