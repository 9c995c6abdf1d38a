# SPDX-License-Identifier: Apache-2.0
"""What torch >= 2.5 calls at the end of `import torch` if this package is installed."""

from __future__ import annotations

import warnings


def autoload() -> None:
    """Register the torch.distributed backend; a failure must not prevent `import torch`."""
    try:
        from . import torch_distributed

        torch_distributed.register()
    except Exception as error:
        warnings.warn(f'the backend "mpi_bridge" is not registered: {error!r}', stacklevel=2)
