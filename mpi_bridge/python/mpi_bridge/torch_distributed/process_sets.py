# SPDX-License-Identifier: Apache-2.0
"""The engine's process sets for torch's groups.

Usually only the members of a group take part in making its set, and the set ends with the group. On
GPUs the engine needs all ranks to know of a set, so there they all make it, and it stays for later
groups of the same ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from .. import engine, private_sets, process_sets, world
from ..engine import Kind, Op

_session_with_gpus = -1  # the session of world.init() in which some rank has a GPU


@dataclass
class ProcessSet:
    """A set, and whether this group is its only user, or the default group."""

    number: int
    is_private: bool = False
    is_of_default_group: bool = False
    session: int = field(default_factory=world.session)

    def close(self) -> None:
        """End the set if nobody else uses it."""
        is_private, self.is_private = self.is_private, False
        # In another session, the number may be that of another set.
        if is_private and world.is_initialized() and self.session == world.session():
            private_sets.close_set(self.number)


def look_for_gpus() -> None:
    """Collective over all ranks of the job: find out whether any of them has a GPU."""
    global _session_with_gpus
    found = torch.tensor([int(torch.cuda.is_available())], dtype=torch.int32)
    engine.call(Kind.ALLREDUCE, found, found, op=Op.MAX, name="torch.look_for_gpus")
    if found.item():
        _session_with_gpus = world.session()


def job_has_gpus() -> bool:
    """Return what look_for_gpus() has found."""
    return _session_with_gpus == world.session()


def of_members(members: Sequence[int], seconds: float) -> ProcessSet:
    """Collective over these ranks only: return a set of them, which the caller must close."""
    if len(members) == world.size():
        return ProcessSet(engine.WORLD)
    return ProcessSet(private_sets.open_set(members, seconds), is_private=True)


def of_all_ranks(members: Sequence[int]) -> ProcessSet:
    """Collective over all ranks of the job, which must pass the same members."""
    wanted = sorted(members)
    for number in process_sets.ids():
        if number < private_sets.FIRST and process_sets.ranks(number) == wanted:
            return ProcessSet(number)
    return ProcessSet(process_sets.add(wanted))
