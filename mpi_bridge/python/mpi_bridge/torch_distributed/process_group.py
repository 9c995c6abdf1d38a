# SPDX-License-Identifier: Apache-2.0
"""The objects that torch.distributed keeps for a group.

A group whose only backend is mpi_bridge is an EngineProcessGroup, which torch calls without a
detour. In a group of several backends ("cpu:mpi_bridge,cuda:nccl") torch has a ProcessGroup of its
own, and an EngineBackend serves one kind of device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from .. import world
from .point_to_point import PointToPoint
from .process_sets import ProcessSet
from .shrinking import Group

Split = Callable[..., Any]


# Before 2.14, torch takes no Backend in Python.
_CAN_BE_BACKEND = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14)


class _Common(PointToPoint):
    """Properties that torch asks of every group and every backend."""

    def __init__(
        self, name: str, process_set: ProcessSet, members: Sequence[int], rank: int, limit: Any
    ) -> None:
        PointToPoint.__init__(self, name, process_set.number, members, rank, limit)
        self._set = process_set
        self._is_aborted = False

    def name(self) -> str:
        """Return the name of the backend."""
        return "mpi_bridge"

    def getBackendName(self) -> str:
        """Return the name of the backend."""
        return "mpi_bridge"

    def set_timeout(self, timeout: timedelta) -> None:
        """Limit how long operations take; the default group's limit is the engine's deadline."""
        if self._set.is_of_default_group:
            world.set_timeout(timeout.total_seconds())
        else:
            self._limit = timeout.total_seconds()

    def shutdown(self) -> None:
        """End the group's thread and its process set."""
        if self._is_aborted:
            return
        self._forget_operations()
        self._completer.stop()
        self._set.close()

    def abort(self) -> None:
        """Let go of the group without waiting for any member: the futures of its collectives end.

        Operations that are under way, and messages, are left to the engine, and the process set
        stays until the job ends.
        """
        self._is_aborted = True
        self._completer.abandon(RuntimeError(f"group {self._name} was aborted"))

    def shrink(self, excluded: list[int], _flags: int = 0, options: Any = None) -> EngineBackend:
        """Make the group without these of its ranks; the others call this.

        Operations that are under way end with an error, whatever the flags say.
        """
        from .groups import shrink  # which makes these objects

        default = self._set.is_of_default_group
        group = Group(self._name, self._members, self._group_rank, self._limit, default)
        return shrink(group, excluded, getattr(options, "_timeout", None))

    def eager_connect_single_device(self, _device: Any = None) -> None:
        """Connections are made when they are first needed."""

    def _get_sequence_number_for_group(self) -> int:
        return self._naming.count

    def _set_sequence_number_for_group(self) -> None:
        """Operations are counted from 0 on every rank."""

    # torch looks for these on the class; an inherited one would ask the class again, without end.
    supports_coalescing = property(lambda self: False)
    _supports_time_estimate = property(lambda self: False)
    # What shrinks becomes an EngineBackend, also of an EngineProcessGroup.
    supports_shrinking = property(lambda self: _CAN_BE_BACKEND)
    supports_reconfigure = property(lambda self: False)
    supports_window = property(lambda self: False)
    supports_abort_hooks = property(lambda self: False)

    def supports_tensor_alloc(self, _device: Any) -> bool:
        """Tell whether the backend has memory of its own for tensors."""
        return False


class EngineProcessGroup(_Common, dist.ProcessGroup):
    """A group that mpi_bridge serves alone, for every kind of device."""

    supports_splitting = property(lambda self: True)

    def __init__(
        self,
        name: str,
        process_set: ProcessSet,
        members: Sequence[int],
        rank: int,
        limit: float | None = None,
        store: Any = None,
        split: Split | None = None,
        torch_name: str = "",
    ) -> None:
        try:
            dist.ProcessGroup.__init__(self, store, rank, len(members))
        except TypeError:
            # Before torch had split_group(), a group in Python had no store.
            dist.ProcessGroup.__init__(self, rank, len(members))
        _Common.__init__(self, name, process_set, members, rank, limit)
        self._split = split
        self._torch_name = torch_name

    @property
    def group_name(self) -> str:
        """The name under which torch knows the group."""
        return self._torch_name

    @property
    def pg_name(self) -> str:
        """The name under which torch knows the group."""
        return self._torch_name

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu"), torch.device("cuda")]

    def _get_backend(self, _device: Any) -> EngineProcessGroup:
        return self

    get_backend = _get_backend

    def split_group(
        self,
        new_ranks: list[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Any = None,
    ) -> EngineProcessGroup | None:
        """Make a group of some members; all members call this, each with its own new group."""
        group = self._split(self, list(new_ranks), timeout, group_name)
        if group is not None and group_desc is not None:
            group._set_group_desc(group_desc)
        return group


class EngineBackend(_Common, c10d.Backend):
    """One of a group's backends. Needs a torch whose Backend can be subclassed in Python."""

    supports_splitting = property(lambda self: False)

    def allreduce_sparse(self, tensors: list[torch.Tensor], *options: Any) -> dist.Work:
        """Reduce sparse tensors in place; torch calls this for those on a GPU."""
        return self.allreduce(tensors, *options)

    def __init__(
        self,
        name: str,
        process_set: ProcessSet,
        members: Sequence[int],
        rank: int,
        limit: float | None = None,
    ) -> None:
        c10d.Backend.__init__(self, rank, len(members))
        _Common.__init__(self, name, process_set, members, rank, limit)
        known = getattr(c10d.Backend, "Options", None)
        times = [] if limit is None else [timedelta(seconds=limit)]
        self._options = known("mpi_bridge", *times) if known is not None else None

    @property
    def options(self) -> Any:
        """What torch keeps for a backend. The inherited one would ask the class again, too."""
        return self._options
