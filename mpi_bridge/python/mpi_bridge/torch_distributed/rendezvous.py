# SPDX-License-Identifier: Apache-2.0
"""How the ranks find each other unless the user says how.

The launcher's PMIx, or Slurm's PMI-2, has already told the ranks about each other, so rank 0 opens
torch's store on a port that the system assigns, and broadcasts its address. A port whose number is
published before anybody listens on it, such as MASTER_PORT, can be taken by any user of rank 0's
host. So ranks whose MASTER_PORT comes only from batchai, and not from the user, do not use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlparse

import torch.distributed as dist
from torch.distributed.rendezvous import _rendezvous_handlers

from .. import meeting, objects, this_host, world

_DEFAULT_TIMEOUT = timedelta(minutes=5)


def install() -> None:
    """Register the scheme mpi-bridge://, and let env:// use it unless the user set variables."""
    handlers = _rendezvous_handlers
    if "mpi-bridge" in handlers:
        return
    dist.register_rendezvous_handler("mpi-bridge", _rendezvous)
    by_environment = handlers["env"]

    def env_or_launcher(url: str, *arguments: Any, **options: Any) -> Iterator[Any]:
        if meeting.set_by_the_user() or urlparse(url).query or not meeting.is_wired_up():
            return by_environment(url, *arguments, **options)
        return _rendezvous(url, *arguments, **options)

    handlers["env"] = env_or_launcher


def _rendezvous(
    url: str, timeout: timedelta = _DEFAULT_TIMEOUT, **_options: Any
) -> Iterator[tuple[dist.Store, int, int]]:
    world.init()
    rank, size = world.rank(), world.size()
    store, place = None, None
    if rank == 0:
        store = dist.TCPStore(
            "localhost", 0, size, is_master=True, timeout=timeout, wait_for_workers=False
        )
        place = (this_host.own_address(), store.port)
    host, port = objects.broadcast_object(place, 0)
    if store is None:
        store = dist.TCPStore(
            host, port, size, is_master=False, timeout=timeout, wait_for_workers=False
        )
    yield store, rank, size
    raise RuntimeError("mpi_bridge: the set of ranks of a job step does not change")
