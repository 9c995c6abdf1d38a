# SPDX-License-Identifier: Apache-2.0
"""Joining and leaving the job, where a rank is, and what this build can do."""

from __future__ import annotations

from typing import Any

from mpi_bridge import world
from mpi_bridge.world import (
    cross_rank,
    cross_size,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
)

from .unsupported import not_supported, unsupported_function


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Join the job step; a second call does nothing.

    `comm` may be None or the list of all ranks. Subsets of ranks, communicators of mpi4py and
    process sets are not supported yet.
    """
    if process_sets:
        raise not_supported("init(process_sets=...)", "leave it out")
    if comm is not None and not isinstance(comm, (list, tuple, range)):
        raise not_supported(
            f"init(comm={type(comm).__name__})", "ranks are wired by PMIx, not by MPI; leave it out"
        )
    world.init()
    if comm and sorted(comm) != list(range(world.size())):
        raise not_supported("init(comm=...) with a part of the ranks", "leave it out")


def mpi_threads_supported() -> bool:
    """Return True: any thread may call, and calls are serialised inside."""
    return True


def _absent() -> bool:
    """Return False: this library has no such back end."""
    return False


mpi_enabled = mpi_built = gloo_enabled = gloo_built = _absent
nccl_built = ddl_built = ccl_built = cuda_built = rocm_built = _absent

start_timeline = unsupported_function("start_timeline")
stop_timeline = unsupported_function("stop_timeline")

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
