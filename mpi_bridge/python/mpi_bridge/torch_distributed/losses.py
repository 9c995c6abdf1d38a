# SPDX-License-Identifier: Apache-2.0
"""Which ranks are left after a loss: the ranks that are have to agree on it.

An error names one rank that is lost, and not the same one on all ranks. So each rank that is left
says in the store of the default group that it is there, and whom its error names. The first of them
decides.
"""

from __future__ import annotations

import json
import re
import socket
import time
from datetime import timedelta

import torch.distributed as dist
from torch.distributed import distributed_c10d

from .. import world
from ..errors import PeerLostError

# As errors of the library name a rank that is lost, with the reason.
_LOST = re.compile(r"\brank (\d+) \(")
_AFTER_ALL_OTHERS = 0.5  # seconds for a rank that is said to be lost
_BETWEEN_LOOKS = 0.01
_FOR_THE_DECISION = 30.0


def say_where(store: dist.Store, rank: int) -> None:
    """Note the host of a rank of a new default group, for those that are left after a loss.

    `store` is the one that torch keeps for the group.
    """
    if hasattr(dist, "shrink_group"):
        _place(store).set(f"host/{rank}", socket.gethostname())


def lost_ranks(error: PeerLostError, patience: float = 10.0) -> list[int]:
    """Return the ranks of the default group that are lost, for dist.shrink_group().

    Collective over the ranks that are left. A rank is lost if it has not called this `patience`
    seconds after the first one, for it may have been computing; or sooner, if all others have, and
    the `error` of one of them names it or another rank of its host. A rank that comes later gets a
    RuntimeError.
    """
    default = distributed_c10d._get_default_group()
    place = _place(store_of(default))
    rank, size = default.rank(), default.size()
    place.set(f"here/{rank}", ",".join(_LOST.findall(str(error))))
    if place.add("deciders", 1) == 1:
        lost = _missing(place, size, patience)
        place.set("lost", json.dumps(lost))
    else:
        place.wait(["lost"], timedelta(seconds=patience + _FOR_THE_DECISION))
        lost = json.loads(place.get("lost"))
    if rank in lost:
        raise RuntimeError(
            f"the other ranks go on without rank {rank}, which has come too late after a loss; "
            f"lost_ranks() waits for {patience:g} s"
        )
    return lost


def store_of(group: dist.ProcessGroup) -> dist.Store:
    """Return another connection to the store that torch keeps for a group."""
    return distributed_c10d._world.pg_map[group][1].clone()


def _place(store: dist.Store) -> dist.Store:
    return dist.PrefixStore(f"mpi_bridge/losses/{world.session()}", store)


def _missing(place: dist.Store, size: int, patience: float) -> list[int]:
    """Wait for the other ranks; return those that do not come."""
    missing, named = set(range(size)), set()
    begin = latest = time.monotonic()
    while missing:
        here = {rank for rank in missing if place.check([f"here/{rank}"])}
        now = time.monotonic()
        latest = now if here else latest
        for rank in here:
            named.update(map(int, filter(None, place.get(f"here/{rank}").decode().split(","))))
        missing -= here
        is_quiet = now - latest > _AFTER_ALL_OTHERS
        if now - begin > patience or (is_quiet and _are_said_to_be_lost(place, missing, named)):
            break
        time.sleep(_BETWEEN_LOOKS)
    return sorted(missing)


def _are_said_to_be_lost(place: dist.Store, missing: set[int], named: set[int]) -> bool:
    if not place.check([f"host/{rank}" for rank in missing]):
        return False
    hosts = {rank: place.get(f"host/{rank}") for rank in missing}
    gone = {hosts[rank] for rank in missing & named}
    return all(host in gone for host in hosts.values())
