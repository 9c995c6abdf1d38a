# SPDX-License-Identifier: Apache-2.0
"""Compares the variables of a reduction between ranks: MPI_BRIDGE_CHECK_REPLICAS.

The comparison is part of the step, before the gradients are reduced. So it sees the variables after
the step before, and after whatever a script or a callback has done since.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import numpy as np

from mpi_bridge import replicas
from mpi_bridge.replicas import Checks

from ..common.process_sets import ProcessSet, number_of
from .exchange import label_for
from .gradient_settings import names_of, names_on_all_ranks

# By label, because a script may make a new tape for each step.
_checks: dict[str, Checks] = {}


def is_on() -> bool:
    """Tell whether replicas are to be compared at all."""
    return replicas.interval() > 0


def checks_of(kind: str, variables: Sequence[Any], process_set: ProcessSet) -> Checks:
    """Return the checks of these variables, which count their steps."""
    number = number_of(process_set)
    label = label_for(kind, names_of(variables), number)
    if label not in _checks:
        _checks[label] = Checks(label, number, at_begin=True)
    return _checks[label]


def on_host(
    kind: str, variables: Sequence[Any], process_set: ProcessSet
) -> Callable[..., list[np.ndarray]]:
    """Return a collective function of the variables' values, which returns a token."""
    checks = checks_of(kind, variables, process_set)
    names = names_on_all_ranks(variables)

    def compare(*arrays: np.ndarray) -> list[np.ndarray]:
        if checks.is_due():
            described = [
                f'"{name}" ({array.dtype.name}, {array.shape})'
                for name, array in zip(names, arrays)
            ]
            checks.compare(described, [_hash(array) for array in arrays])
        return [np.zeros((), np.int32)]

    return compare


def _hash(array: np.ndarray) -> int:
    return replicas.hash_of_bytes(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
