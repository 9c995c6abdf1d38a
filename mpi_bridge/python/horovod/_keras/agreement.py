# SPDX-License-Identifier: Apache-2.0
"""Makes sure, once, that all ranks are about to reduce the same gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mpi_bridge import MismatchError, engine
from mpi_bridge.engine import Kind

from ..common.handles import next_name


def require_same(label: str, lines: Sequence[str], process_set: int) -> None:
    """Collective: raise MismatchError on every rank unless all pass the same lines.

    The ranks exchange all lines, so that the text can name the first one that differs.
    """
    mine = np.frombuffer("\n".join(lines).encode(), np.uint8)
    # A counted name is in no plan. This may come in the first two steps and then never again, and
    # gradients that were planned with it would wait for it.
    name = next_name(f"{label}.layout", process_set)
    handle = engine.submit(
        Kind.ALLGATHER, mine, name=name, process_set=process_set, waited_for=True
    )
    try:
        result = handle.wait()
        texts, start, everything = [], 0, result.tobytes()
        for count in result.received_rows:
            texts.append(everything[start : start + count].decode().split("\n"))
            start += count
    finally:
        handle.release()
    for member, other in enumerate(texts):
        if other != texts[0]:
            raise MismatchError(f"{label}: {_difference(texts[0], other, member)}")


def _difference(first: Sequence[str], other: Sequence[str], member: int) -> str:
    ranks = f"members 0 and {member} of the process set"
    if len(first) != len(other):
        return f"{ranks} have {len(first)} and {len(other)} gradients"
    number = next(i for i, (left, right) in enumerate(zip(first, other)) if left != right)
    return f"gradient {number} of {ranks} differs: {first[number]} and {other[number]}"
