# SPDX-License-Identifier: Apache-2.0
"""The torch.distributed backend "mpi_bridge".

    import torch.distributed as dist
    dist.init_process_group("mpi_bridge")

needs no MASTER_ADDR under a PMIx launcher. Where the package is installed, torch >= 2.5 loads the
backend by itself; otherwise `import mpi_bridge.torch_distributed` first. DistributedDataParallel,
FSDP2, tensor parallelism and the functions of torch.distributed work on it.
"""

from __future__ import annotations

import torch.distributed as dist

from . import groups, rendezvous
from .losses import lost_ranks
from .process_group import EngineProcessGroup

NAME = groups.NAME


def register() -> None:
    """Register the backend with torch; torch calls this if the package is installed."""
    if NAME.upper() in dist.Backend._plugins:
        return
    dist.Backend.register_backend(NAME, groups.create, extended_api=True, devices=["cpu", "cuda"])
    rendezvous.install()
    groups.install()


if dist.is_available():
    register()

__all__ = ["NAME", "EngineProcessGroup", "lost_ranks", "register"]
