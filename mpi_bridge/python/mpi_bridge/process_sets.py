# SPDX-License-Identifier: Apache-2.0
"""Subsets of the ranks. A set's id is the same number on all ranks; 0 is the set of all."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from . import native
from .errors import InvalidArgumentError

_UNKNOWN = -2
_MOST_SETS = 512  # MPIB_LAST_PRIVATE_SET and those below it


def add(ranks: Sequence[int]) -> int:
    """Collective over all ranks of the job: make a set of these ranks and return its id."""
    members = sorted(ranks)
    identifier = ctypes.c_int()
    native.call(
        "mpib_process_set_add",
        (ctypes.c_int * len(members))(*members),
        len(members),
        ctypes.byref(identifier),
    )
    return identifier.value


def remove(process_set: int) -> None:
    """Collective over all ranks of the job: end a set. Its operations in flight fail."""
    native.call("mpib_process_set_remove", process_set)


def _known(process_set: int, answer: int) -> int:
    if answer == _UNKNOWN:
        raise InvalidArgumentError(f"there is no process set {process_set}")
    return answer


def rank(process_set: int) -> int:
    """Return this rank's number in the set, -1 if it is not a member."""
    return _known(process_set, native.functions().mpib_process_set_rank(process_set))


def size(process_set: int) -> int:
    """Return the number of members."""
    return _known(process_set, native.functions().mpib_process_set_size(process_set))


def ranks(process_set: int) -> list[int]:
    """Return the members, ascending."""
    members = (ctypes.c_int * size(process_set))()
    native.functions().mpib_process_set_ranks(process_set, members, len(members))
    return list(members)


def ids() -> list[int]:
    """Return the ids in use, ascending."""
    found = (ctypes.c_int * _MOST_SETS)()
    count = native.functions().mpib_process_set_ids(found, _MOST_SETS)
    return list(found[:count])
