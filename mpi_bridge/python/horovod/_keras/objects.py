# SPDX-License-Identifier: Apache-2.0
"""Picklable objects between the ranks of a process set, which trust each other."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from mpi_bridge import engine, world
from mpi_bridge.engine import Kind

from ..common.process_sets import ProcessSet, global_process_set, number_of


def _dumps(value: Any) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(value)
    return cloudpickle.dumps(value)


def _everyones_bytes(mine: bytes, name: str, process_set: ProcessSet) -> list[bytes]:
    handle = engine.submit(
        Kind.ALLGATHER,
        np.frombuffer(mine, np.uint8),
        name=name,
        process_set=number_of(process_set),
        waited_for=True,
    )
    try:
        result = handle.wait()
        everything, parts, start = result.tobytes(), [], 0
        for count in result.received_rows:
            parts.append(everything[start : start + count])
            start += count
        return parts
    finally:
        handle.release()


def broadcast_object(
    value: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the root's value on every rank; the root gets its own object back."""
    # The others contribute nothing to the gathering, so one operation carries length and content.
    is_root = world.rank() == root_rank
    parts = _everyones_bytes(
        _dumps(value) if is_root else b"", name or "broadcast_object", process_set
    )
    return value if is_root else pickle.loads(b"".join(parts))


def allgather_object(
    value: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Return every member's value, in the order of the process set."""
    parts = _everyones_bytes(_dumps(value), name or "allgather_object", process_set)
    return [pickle.loads(part) for part in parts]
