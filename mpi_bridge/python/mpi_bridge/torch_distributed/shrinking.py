# SPDX-License-Identifier: Apache-2.0
"""What dist.shrink_group() asks of a group: to go on without some of its ranks.

The processes stay. A smaller default group is another session of the engine, which its ranks join
through the store that torch keeps for the group. So they may have lost the others, and messages of
the session before reach nobody. A smaller group of another kind gets a process set of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from .. import world
from ..errors import BootstrapError, MpiBridgeError, PeerLostError
from . import losses

_FOR_ALL = 60.0  # seconds, from the first rank that has the group to the last one


@dataclass(frozen=True)
class Group:
    """A group as its members know it."""

    name: str
    members: list[int]  # ranks of the job, in the group's order
    rank: int  # of this process, in the group
    limit: float | None  # seconds, if the group has a timeout of its own
    is_of_default_group: bool = False

    def without(self, excluded: Sequence[int]) -> Group:
        """Return the group of the others, which has another name; `excluded` are its own ranks."""
        left = [number for number in range(len(self.members)) if number not in set(excluded)]
        members = [self.members[number] for number in left]
        if self.is_of_default_group:
            members = list(range(len(left)))
        text = ",".join(map(str, sorted(excluded)))
        name = f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        return replace(self, name=name, members=members, rank=left.index(self.rank))


def join_without(excluded: Sequence[int], smaller: Group) -> dist.Store:
    """Leave the session of the default group, and begin the one of the smaller group.

    Collective over the ranks that stay. Returns the store that torch keeps for the smaller group.
    If this fails, because one more rank is lost, they may call dist.shrink_group() again, with that
    one among the excluded ranks.
    """
    store = losses.store_of(distributed_c10d._get_default_group())
    losses.say_who_is_left_out(store, excluded)
    world.shutdown()
    # Ranks that repeat this find nothing there of the last time.
    place = f"shrunk/{smaller.name}/{world.session()}"
    try:
        world.join_by(dist.PrefixStore(place, store), smaller.rank, len(smaller.members))
    except MpiBridgeError as error:
        raise BootstrapError(
            f"shrink_group: the ranks of the default group do not meet without {list(excluded)}: "
            f"{error}; {error.__cause__ or ''}"
        ) from error
    return store


def confirm(store: dist.Store, smaller: Group) -> None:
    """Wait until all ranks have the smaller default group, or raise.

    Otherwise one of them might go on with it, while others know only the group before.
    """
    place = dist.PrefixStore(f"confirmed/{smaller.name}/{world.session()}", store)
    place.set(str(smaller.rank), "")
    keys = [str(rank) for rank in range(len(smaller.members))]
    try:
        place.wait(keys, timedelta(seconds=_FOR_ALL))
    except dist.DistError as error:
        raise BootstrapError(
            f"shrink_group: not all ranks have the smaller default group after {_FOR_ALL:g} s: "
            f"{error}"
        ) from error


def say_what_helps(error: PeerLostError) -> PeerLostError:
    """Return what a group says that cannot shrink because the default group has lost a rank."""
    return PeerLostError(
        "shrink_group: a group other than the default one cannot shrink after the loss of a rank; "
        f"shrink the default group instead, and make the group again: {error}"
    )


def keep_torchs_kind_away() -> None:
    """Make torch's object for a smaller group of ours as torch makes that of a new one.

    torch registers what has shrunk as Gloo or NCCL, for one kind of device, and its C++ then takes
    it for that class: DistributedDataParallel crashes.
    """
    original = getattr(distributed_c10d, "_create_shrunk_process_group", None)
    if original is None:
        return

    def create(backend: Any, members: list[int], known: dict[str, Any], *rest: Any) -> Any:
        if backend.name() != "mpi_bridge":
            return original(backend, members, known, *rest)
        name = known["new_group_name"]
        store = dist.PrefixStore(f"{name}/", known["store"].clone())
        group = dist.ProcessGroup(store, backend.rank(), backend.size())
        for device in ("cpu", "cuda"):
            kind = dist.ProcessGroup.BackendType.CUSTOM
            group._register_backend(torch.device(device), kind, backend)
        group._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
        if known["bound_device_id"] is not None:
            group.bound_device_id = known["bound_device_id"]
        group._set_group_name(name)
        group._set_group_desc(f"{known['original_group_name']}:shrunk")
        return group

    distributed_c10d._create_shrunk_process_group = create
