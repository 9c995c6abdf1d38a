# SPDX-License-Identifier: Apache-2.0
"""Picklable objects sent between the ranks of a process set, which trust each other."""

from __future__ import annotations

from typing import Any

from mpi_bridge import objects

from ..common.process_sets import ProcessSet, global_process_set, number_of


def broadcast_object(
    value: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the root's value on every rank; the root gets its own object back."""
    # The operation is named, because counted ones would not match after a failure on only some
    # ranks.
    return objects.broadcast_object(
        value, root_rank, number_of(process_set), name or "broadcast_object"
    )


def allgather_object(
    value: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Return every member's value, in the order of the process set."""
    return objects.allgather_object(value, number_of(process_set), name or "allgather_object")
