# SPDX-License-Identifier: Apache-2.0
"""Picklable Python objects, sent between the ranks of one job step, which trust each other."""

from __future__ import annotations

import array
import pickle
from typing import Any

from . import engine
from .engine import WORLD, Kind
from .world import rank


def _dumps(value: Any) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(value)
    return cloudpickle.dumps(value)


def broadcast_object(
    value: Any, root: int = 0, process_set: int = WORLD, name: str | None = None
) -> Any:
    """Return the root's value on every rank; the root gets its own object back.

    `root` is a rank of the job, also in a process set.
    """
    is_root = rank() == root
    payload = bytearray(_dumps(value)) if is_root else bytearray()
    length = array.array("q", [len(payload)])
    options = {"root": root, "process_set": process_set}
    engine.call(Kind.BROADCAST, length, length, name=name and f"{name}.length", **options)
    if not is_root:
        payload = bytearray(length[0])
    engine.call(Kind.BROADCAST, payload, payload, name=name and f"{name}.object", **options)
    return value if is_root else pickle.loads(payload)


def allgather_object(value: Any, process_set: int = WORLD, name: str | None = None) -> list[Any]:
    """Return every member's value, in the order of ranks."""
    handle = engine.submit(
        Kind.ALLGATHER,
        _dumps(value),
        name=name and f"{name}.object",
        process_set=process_set,
        waited_for=True,
    )
    try:
        result = handle.wait()
        everyone = memoryview(result.tobytes())
    finally:
        handle.release()
    values, start = [], 0
    for length in result.received_rows:
        values.append(pickle.loads(everyone[start : start + length]))
        start += length
    return values
