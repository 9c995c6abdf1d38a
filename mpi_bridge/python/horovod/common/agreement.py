# SPDX-License-Identifier: Apache-2.0
"""Exchanges between ranks before data moves, so that a difference gives a clear error."""

from __future__ import annotations

import array
import zlib
from collections.abc import Sequence

from mpi_bridge import MismatchError, engine, process_sets, rank


def gather_numbers(values: Sequence[int], process_set: int = engine.WORLD) -> list[list[int]]:
    """Collect the same number of 64-bit integers from every member, in the order of ranks."""
    handle = engine.submit(
        engine.Kind.ALLGATHER, array.array("q", values), process_set=process_set, waited_for=True
    )
    try:
        everyone = array.array("q", handle.wait().tobytes())
    finally:
        handle.release()
    width = len(values)
    return [list(everyone[i : i + width]) for i in range(0, len(everyone), width)]


def _require_equal(what: str, mine: str, codes: Sequence[int], process_set: int) -> None:
    members = process_sets.ranks(process_set)
    own = codes[members.index(rank())]
    others = [member for member, code in zip(members, codes) if code != own]
    if others:
        raise MismatchError(f"{what}: rank {rank()} has {mine}; ranks {others} have something else")


def require_same(what: str, text: str, process_set: int = engine.WORLD) -> None:
    """Collective: raise MismatchError on every rank unless all ranks pass the same text."""
    # The majority may be wrong, so each rank names those that differ from itself.
    rows = gather_numbers([zlib.crc32(text.encode()), len(text)], process_set)
    shown = text if len(text) <= 200 else text[:200] + "..."
    _require_equal(what, shown, [row[0] ^ (row[1] << 32) for row in rows], process_set)
