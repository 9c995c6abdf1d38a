# SPDX-License-Identifier: Apache-2.0
"""Which ranks are left after a loss: the ranks that are have to agree on it.

An error names one rank that is lost, and not the same one on all ranks. So each rank that is left
says in the store of the default group that it is there, on which host, and whom its error names.
The first of them decides.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Sequence
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
_EXCLUDED = "excluded"  # ranks without which others have gone on

_attempts = (-1, 0)  # a session, and how often the decision has failed in it


def say_where(store: dist.Store, rank: int) -> None:
    """Note the host of a rank of a new default group, for those that are left after a loss.

    `store` is the one that torch keeps for the group.
    """
    if hasattr(dist, "shrink_group"):
        _place(store).set(f"host/{rank}", socket.gethostname())


def say_who_is_left_out(store: dist.Store, excluded: Sequence[int]) -> None:
    """Tell ranks that live, and that others go on without, before they decide the same of these."""
    _place(store).set(_EXCLUDED, json.dumps(sorted(excluded)))


def lost_ranks(error: RuntimeError, patience: float = 10.0) -> list[int]:
    """Return the ranks of the default group that are lost, for dist.shrink_group().

    `error` is a PeerLostError, or what the future of an operation has made of one; any other error
    is raised again. Collective over the ranks that are left. A rank is lost if it has not called
    this `patience` seconds after the first one, for it may have been computing; or sooner, if all
    others have, and the error of one of them names it, or another rank of its host of which no rank
    has come. A rank that comes later gets a RuntimeError.
    """
    global _attempts
    if not isinstance(error, PeerLostError) and PeerLostError.__name__ not in str(error):
        raise error
    default = distributed_c10d._get_default_group()
    rank, size = default.rank(), default.size()
    place = _place(store_of(default))
    if _attempts[0] != world.session():
        _attempts = (world.session(), 0)
    attempt = dist.PrefixStore(str(_attempts[1]), place)
    named = ",".join(_LOST.findall(str(error)))
    attempt.set(f"here/{rank}", f"{named}|{socket.gethostname()}")
    try:
        if place.check([_EXCLUDED]):
            lost = json.loads(place.get(_EXCLUDED))
        elif attempt.add("deciders", 1) == 1:
            lost = _missing(attempt, place, size, patience)
            attempt.set("lost", json.dumps(lost))
        else:
            attempt.wait(["lost"], timedelta(seconds=patience + _FOR_THE_DECISION))
            lost = json.loads(attempt.get("lost"))
    except dist.DistError:
        # The rank that was to decide is lost as well.
        _attempts = (_attempts[0], _attempts[1] + 1)
        raise
    if rank in lost:
        raise RuntimeError(
            f"the other ranks go on without rank {rank}; after a loss, lost_ranks() waits "
            f"{patience:g} s for each rank"
        )
    return lost


def store_of(group: dist.ProcessGroup) -> dist.Store:
    """Return another connection to the store that torch keeps for a group."""
    return distributed_c10d._world.pg_map[group][1].clone()


def _place(store: dist.Store) -> dist.Store:
    return dist.PrefixStore(f"mpi_bridge/losses/{world.session()}", store)


def _missing(attempt: dist.Store, place: dist.Store, size: int, patience: float) -> list[int]:
    """Wait for the other ranks; return those that do not come."""
    missing, named, hosts = set(range(size)), set(), set()
    begin = latest = time.monotonic()
    while missing:
        here = {rank for rank in missing if attempt.check([f"here/{rank}"])}
        now = time.monotonic()
        latest = now if here else latest
        for rank in here:
            names, host = attempt.get(f"here/{rank}").decode().split("|")
            named.update(map(int, filter(None, names.split(","))))
            hosts.add(host)
        missing -= here
        is_quiet = now - latest > _AFTER_ALL_OTHERS
        if now - begin > patience or (is_quiet and _are_lost(place, missing, named, hosts)):
            break
        time.sleep(_BETWEEN_LOOKS)
    return sorted(missing)


def _are_lost(place: dist.Store, missing: set[int], named: set[int], alive: set[str]) -> bool:
    """Tell whether all of the missing ranks are named, or on hosts that are gone as a whole."""
    if not place.check([f"host/{rank}" for rank in missing]):
        return False
    hosts = {rank: place.get(f"host/{rank}").decode() for rank in missing}
    gone = {hosts[rank] for rank in missing & named} - alive
    return all(rank in named or hosts[rank] in gone for rank in missing)
