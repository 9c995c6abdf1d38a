# SPDX-License-Identifier: Apache-2.0
"""The torch.distributed backend "mpi_bridge".

    import torch.distributed as dist
    dist.init_process_group("mpi_bridge")

needs no MASTER_ADDR under a PMIx launcher. Where the package is installed, torch >= 2.5 loads the
backend by itself; otherwise `import mpi_bridge.torch_distributed` first. DistributedDataParallel,
FSDP2 and the collectives of torch.distributed work on it; send and recv do not yet.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from .. import engine, process_sets, world
from . import rendezvous
from .process_group import EngineProcessGroup

NAME = "mpi_bridge"


def _create(options: Any, _backend_options: Any = None) -> EngineProcessGroup:
    """Make the group for torch: of all ranks, or of the members of new_group()."""
    world.init()
    members = list(options.global_ranks_in_group) or list(range(options.group_size))
    if members == list(range(world.size())):
        process_set = engine.WORLD
        _require_same_place(options.group_rank, options.group_size)
    else:
        process_set = _process_set_of(members)
    if options.timeout not in (None, dist.default_pg_timeout) and process_set == engine.WORLD:
        _set_timeout(options.timeout)
    return EngineProcessGroup(options.group_id, process_set, members, options.group_rank)


def _set_timeout(timeout: timedelta) -> None:
    world.set_timeout(timeout.total_seconds())


def _require_same_place(rank: int, size: int) -> None:
    if (rank, size) != (world.rank(), world.size()):
        raise ValueError(
            f"init_process_group was told rank {rank} of {size}, but this process is rank "
            f"{world.rank()} of {world.size()} in its job step; leave RANK and WORLD_SIZE out, or "
            "start the ranks with srun --mpi=pmix"
        )


def _process_set_of(members: list[int]) -> int:
    """Return the engine's set of these ranks. Collective over all ranks, once for each set."""
    if members != sorted(members):
        raise NotImplementedError(
            f"mpi_bridge: a group whose ranks are not ascending ({members}) is not supported yet"
        )
    for process_set in process_sets.ids():
        if process_sets.ranks(process_set) == members:
            return process_set
    return process_sets.add(members)


def _let_all_ranks_add_sets() -> None:
    """Have the ranks outside a new group take part in making the engine's process set.

    torch calls a backend only on the members. However, it requires all ranks to call new_group(),
    and so all of them come to this function.
    """
    original = distributed_c10d._new_process_group_helper

    def helper(
        group_size: int, group_rank: Any, members: Any, backend: Any, *rest: Any, **options: Any
    ) -> Any:
        is_ours = str(backend) == NAME and dist.is_initialized()
        if is_ours and members and world.is_initialized() and world.rank() not in members:
            _process_set_of(list(members))
        return original(group_size, group_rank, members, backend, *rest, **options)

    distributed_c10d._new_process_group_helper = helper


def register() -> None:
    """Register the backend with torch; torch calls this if the package is installed."""
    if NAME.upper() in dist.Backend._plugins:
        return
    dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu", "cuda"])
    rendezvous.install()
    _let_all_ranks_add_sets()


if dist.is_available():
    register()

__all__ = ["NAME", "EngineProcessGroup", "register"]
