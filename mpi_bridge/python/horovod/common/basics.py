# SPDX-License-Identifier: Apache-2.0
"""Joining and leaving the job, the place of a rank, the features of this build, the timeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpi_bridge import engine, world
from mpi_bridge.world import (
    cross_rank,
    cross_size,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    rank,
    size,
)

from . import environment, handles
from .process_sets import ProcessSet, register_at_init
from .unsupported import not_supported


def init(comm: Any = None, process_sets: Sequence[ProcessSet] | str | None = None) -> None:
    """Join the job step; a second call only registers further process sets.

    `comm` may be None or the list of all ranks; a communicator of mpi4py is refused, because PMIx
    and not MPI connects the ranks. `process_sets` may be a list of sets to register, the same on
    all ranks, or "dynamic": sets can be added later, which is always possible here.
    """
    if isinstance(process_sets, str) and process_sets.lower() != "dynamic":
        raise ValueError(f'process_sets={process_sets!r}: give a list of ProcessSet or "dynamic"')
    if comm is not None and (isinstance(comm, str) or not isinstance(comm, (Sequence, range))):
        raise not_supported(
            f"init(comm={type(comm).__name__})",
            "ranks are wired by PMIx, not by MPI; leave comm out",
        )
    environment.apply()
    if not is_initialized():
        handles.forget_names()
    world.init()
    environment.say_what_has_no_meaning(world.rank())
    if comm and list(comm) != list(range(world.size())):
        raise not_supported(
            "init(comm=...) with a part of the ranks, or in another order",
            f"leave it out: all {world.size()} ranks join, and a ProcessSet can be a part of them",
        )
    if process_sets and not isinstance(process_sets, str):
        register_at_init(process_sets)


def shutdown() -> None:
    """Leave the job step; a second call does nothing. init() may follow, on all ranks."""
    world.shutdown()


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Write a timeline of this rank to FILE_PATH.RANK.json from now on.

    `mark_cycles` is accepted and does nothing: there are no cycles.
    """
    engine.timeline_start(file_path)


def stop_timeline() -> None:
    """Complete the timeline's file."""
    engine.timeline_stop()


def mpi_threads_supported() -> bool:
    """Return True: any thread may call."""
    return True


def cuda_built() -> bool:
    """Tell whether the CUDA driver is installed; this library needs nothing else for CUDA tensors.

    CUDA is not initialised, so the process may still fork.
    """
    return engine.cuda_installed()


def nccl_built() -> int:
    """Return 0: tensors of this framework do not go through NCCL. horovod.torch has its own."""
    return 0


def _absent() -> bool:
    """Return False: this library has no such back end."""
    return False


mpi_enabled = mpi_built = gloo_enabled = gloo_built = _absent
ddl_built = ccl_built = rocm_built = _absent

__all__ = [
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]
