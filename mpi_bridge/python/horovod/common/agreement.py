# SPDX-License-Identifier: Apache-2.0
"""What ranks tell each other before data moves, so that a difference is an error with a name."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from mpi_bridge import MismatchError, gather_integers, rank


def _require_equal(what: str, mine: str, codes: Sequence[int]) -> None:
    me = rank()
    others = [number for number, code in enumerate(codes) if code != codes[me]]
    if others:
        raise MismatchError(f"{what}: rank {me} has {mine}; ranks {others} have something else")


def require_same(what: str, text: str) -> None:
    """Collective: raise MismatchError on every rank unless all ranks pass the same text."""
    # A majority cannot be told from a fault, so each rank names those that differ from itself.
    rows = gather_integers([zlib.crc32(text.encode()), len(text)])
    shown = text if len(text) <= 200 else text[:200] + "..."
    _require_equal(what, shown, [row[0] ^ (row[1] << 32) for row in rows])


def exchange_rows(what: str, rows: int, row_description: str) -> list[int]:
    """Collective: return each rank's number of rows, once all agree on what a row is."""
    gathered = gather_integers([rows, zlib.crc32(row_description.encode())])
    _require_equal(what, f"rows of {row_description}", [row[1] for row in gathered])
    return [row[0] for row in gathered]
