# SPDX-License-Identifier: Apache-2.0
"""Any picklable Python object, sent between ranks of one job step (which trust each other)."""

from __future__ import annotations

import pickle
from typing import Any

from .collectives import allgatherv, broadcast, gather_integers
from .world import rank


def _dumps(value: Any) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(value)
    return cloudpickle.dumps(value)


def broadcast_object(value: Any, root: int = 0) -> Any:
    """Return the root's value on every rank; the root gets its own object back."""
    payload = bytearray(_dumps(value)) if rank() == root else bytearray()
    length = gather_integers([len(payload)])[root][0]
    if rank() != root:
        payload = bytearray(length)
    broadcast(payload, root)
    return value if rank() == root else pickle.loads(payload)


def allgather_object(value: Any) -> list[Any]:
    """Return every rank's value, in the order of ranks."""
    payload = _dumps(value)
    lengths = [row[0] for row in gather_integers([len(payload)])]
    everyone = bytearray(sum(lengths))
    allgatherv(payload, everyone, lengths)
    values, start = [], 0
    for length in lengths:
        values.append(pickle.loads(memoryview(everyone)[start : start + length]))
        start += length
    return values
