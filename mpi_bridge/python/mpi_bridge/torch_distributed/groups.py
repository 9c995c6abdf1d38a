# SPDX-License-Identifier: Apache-2.0
"""How torch's groups come into being: init_process_group, new_group and split_group."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.distributed import distributed_c10d

from .. import engine, objects, on_device, world
from ..errors import PeerLostError
from . import cpp_backend, losses, process_sets, replicas, shrinking
from .process_group import EngineBackend, EngineProcessGroup
from .process_sets import ProcessSet

NAME = "mpi_bridge"


class _Creation(threading.local):
    """What torch knows when it calls create(), but does not tell."""

    backend = NAME  # the text that the user gave
    only_members = False  # the other ranks do not call new_group()


_creation = _Creation()
_default_groups = 0  # that there have been so far; the same on all ranks


def create(options: Any, _backend_options: Any = None) -> Any:
    """Make the group for torch: of all ranks, or of the members of new_group()."""
    global _default_groups
    if not options.global_ranks_in_group:
        world.init_with(options.store, options.group_rank, options.group_size)
    replicas.watch()
    members = list(options.global_ranks_in_group)
    limit = None
    if not members:
        _default_groups += 1
        _require_same_place(options.group_rank, options.group_size)
        members = list(range(options.group_size))
        process_set = _set_of_all_ranks(options.timeout)
    else:
        if _is_set_by_user(options.timeout):
            limit = options.timeout.total_seconds()
        process_set = _process_set_of(members, limit)
    name, rank = options.group_id, options.group_rank
    if cpp_backend.module() is not None:
        world.before_leaving("device", on_device.finish)
        only = "" if "," not in _creation.backend else f".{NAME}"
        return _native_backend(f"{_own_name(name)}{only}", process_set, members, rank, limit)
    if "," in _creation.backend:
        return _backend(f"{_own_name(name)}.{NAME}", process_set, members, rank, limit)
    return EngineProcessGroup(
        _own_name(name),
        process_set,
        members,
        rank,
        limit,
        getattr(options, "store", None),
        _split,
        name,
    )


def _set_of_all_ranks(timeout: timedelta | None) -> ProcessSet:
    if _is_set_by_user(timeout):
        world.set_timeout(timeout.total_seconds())
    process_sets.look_for_gpus()
    replicas.require_same_interval()
    return ProcessSet(engine.WORLD, is_of_default_group=True)


def _native_backend(
    name: str, process_set: ProcessSet, members: list[int], rank: int, limit: float | None
) -> Any:
    return cpp_backend.module().create(
        name=name,
        process_set=process_set.number,
        is_private=process_set.is_private,
        is_of_default_group=process_set.is_of_default_group,
        members=members,
        rank=rank,
        limit=limit,
    )


def _backend(name: str, *arguments: Any) -> EngineBackend:
    try:
        return EngineBackend(name, *arguments)
    except TypeError as error:
        raise NotImplementedError(
            f"a group with several backends ({_creation.backend}) needs torch 2.14 or later"
        ) from error


def _own_name(name: str) -> str:
    """Return a name that no group had, because torch counts anew with each default group."""
    return name if _default_groups == 1 else f"{_default_groups}:{name}"


def _is_set_by_user(timeout: timedelta | None) -> bool:
    return timeout not in (None, dist.default_pg_timeout)


def _require_same_place(rank: int, size: int) -> None:
    if (rank, size) != (world.rank(), world.size()):
        raise ValueError(
            f"init_process_group was told rank {rank} of {size}, but this process is rank "
            f"{world.rank()} of {world.size()} in its job step; leave RANK and WORLD_SIZE out, or "
            "start the ranks with srun --mpi=pmix"
        )


def _process_set_of(members: list[int], limit: float | None) -> ProcessSet:
    if len(members) == world.size():
        return ProcessSet(engine.WORLD)
    if process_sets.job_has_gpus() and not _creation.only_members:
        return process_sets.of_all_ranks(members)
    return process_sets.of_members(members, limit or 0)


def _split(
    parent: EngineProcessGroup, ranks: list[int], timeout: timedelta | None, name: str | None
) -> EngineProcessGroup | None:
    """Make a group of some of the parent's members. All members call this.

    Ranks in the parent; those that are in no new group pass the group of others.
    """
    limit = timeout.total_seconds() if _is_set_by_user(timeout) else None
    members = [parent._members[rank] for rank in ranks]
    process_set = _split_set(parent._members, members, limit, name)
    if process_set is None:
        return None
    store = dist.PrefixStore(f"{name}/", parent.get_group_store())
    rank = members.index(world.rank())
    group = EngineProcessGroup(
        _own_name(name), process_set, members, rank, limit, store, _split, name
    )
    group._set_group_name(name)
    return group


def split_native(
    of_parent: list[int], ranks: list[int], limit: float | None, name: str
) -> Any | None:
    """Do the same for a group in C++, whose members are `of_parent`."""
    members = [of_parent[rank] for rank in ranks]
    process_set = _split_set(of_parent, members, limit, name)
    if process_set is None:
        return None
    rank = members.index(world.rank())
    return _native_backend(_own_name(name), process_set, members, rank, limit)


def _split_set(
    of_parent: list[int], members: list[int], limit: float | None, name: str | None
) -> ProcessSet | None:
    """Make the process set of the members; None if this rank is not one of them."""
    is_member = world.rank() in members
    if process_sets.job_has_gpus() and len(of_parent) == world.size():
        # All ranks are here, so they can make every new group's set together.
        every = objects.allgather_object(sorted(members), name=f"torch.split.{name}")
        process_set = None
        for each in sorted(set(map(tuple, every))):
            made = process_sets.of_all_ranks(each)
            process_set = made if list(each) == sorted(members) else process_set
        return process_set if is_member else None
    # Only the parent's members are here, so the ranks of the job cannot make it together.
    return process_sets.of_members(members, limit or 0) if is_member else None


def shrink(group: shrinking.Group, excluded: list[int], timeout: timedelta | None) -> Any:
    """Make the backend of a group without these of its ranks. The others call this.

    If the user sets no timeout, the new group has that of the old one.
    """
    smaller = group.without(excluded)
    if group.is_of_default_group:
        store = shrinking.join_without(excluded, smaller)
        process_set = _set_of_all_ranks(timeout)
        losses.say_where(store, smaller.rank)
        shrinking.confirm(store, smaller)
        limit = None
    else:
        limit = timeout.total_seconds() if _is_set_by_user(timeout) else group.limit
        try:
            process_set = process_sets.of_members(smaller.members, limit or 0)
        except PeerLostError as error:
            raise shrinking.say_what_helps(error) from error
    make = _backend if cpp_backend.module() is None else _native_backend
    return make(smaller.name, process_set, smaller.members, smaller.rank, limit)


def shrink_native(
    name: str,
    members: list[int],
    rank: int,
    limit: float | None,
    is_of_default_group: bool,
    excluded: list[int],
    seconds: float | None,
) -> Any:
    """Do the same for a group in C++."""
    group = shrinking.Group(name, members, rank, limit, is_of_default_group)
    return shrink(group, excluded, None if seconds is None else timedelta(seconds=seconds))


def install() -> None:
    """Patch the private functions of torch that know what create() is not told."""
    shrinking.keep_torchs_kind_away()
    _learn_the_backend()
    _learn_who_takes_part()
    _split_only_when_asked()
    _record_no_flight()


@contextlib.contextmanager
def _known(**facts: Any) -> Iterator[None]:
    before = {name: getattr(_creation, name) for name in facts}
    vars(_creation).update(facts)
    try:
        yield
    finally:
        vars(_creation).update(before)


def _learn_the_backend() -> None:
    """Note the text that names the backends, and have all ranks make sets where that is needed.

    torch calls create() only on the members. However, it requires all ranks to call new_group(),
    and so all of them come to this function.
    """
    original = distributed_c10d._new_process_group_helper

    def helper(
        group_size: int, group_rank: Any, members: Any, backend: Any, *rest: Any, **options: Any
    ) -> Any:
        text = str(backend)
        is_ours = NAME in text and dist.is_initialized() and world.is_initialized()
        is_outside = is_ours and bool(members) and world.rank() not in members
        if is_outside and process_sets.job_has_gpus() and not _creation.only_members:
            process_sets.of_all_ranks(members)
        with _known(backend=text):
            made = original(group_size, group_rank, members, backend, *rest, **options)
        if NAME in text and not members:
            losses.say_where(distributed_c10d._world.pg_map[made[0]][1], group_rank)
        return made

    distributed_c10d._new_process_group_helper = helper


def _learn_who_takes_part() -> None:
    original = distributed_c10d._new_group_with_tag

    def new_group_with_tag(*arguments: Any, **options: Any) -> Any:
        with _known(only_members=bool(options.get("use_local_synchronization"))):
            return original(*arguments, **options)

    distributed_c10d._new_group_with_tag = new_group_with_tag


def _split_only_when_asked() -> None:
    """Keep new_group() from splitting the default group, which takes a Backend in torch's sense."""
    original = getattr(distributed_c10d, "_get_split_source", None)
    if original is None:
        return

    def split_source(group: Any, *rest: Any) -> Any:
        if isinstance(group, EngineProcessGroup):
            return None
        source = original(group, *rest)
        in_cpp = cpp_backend.module() if isinstance(source, c10d.Backend) else None
        is_ours = in_cpp is not None and in_cpp.process_set_of(source) is not None
        return None if is_ours else source

    distributed_c10d._get_split_source = split_source


def _record_no_flight() -> None:
    """Keep torch's flight recorder away, which cannot see the operations of such a group."""
    original = getattr(distributed_c10d, "_maybe_attach_flight_recorder", None)
    if original is None:
        return

    def attach(group: Any, *rest: Any) -> None:
        if not isinstance(group, EngineProcessGroup):
            original(group, *rest)

    distributed_c10d._maybe_attach_flight_recorder = attach
