# SPDX-License-Identifier: Apache-2.0
"""Comparisons for programs that run on every rank: the first wrong value ends the whole step."""

import numpy as np

import mpi_bridge


class WrongValueError(Exception):
    pass


class Skipped(Exception):  # noqa: N818 - no error
    """The check cannot run here; all ranks must raise it."""


def equal(what, actual, expected):
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.shape != expected.shape or not np.array_equal(actual, expected):
        raise WrongValueError(
            f"rank {mpi_bridge.rank()} of {mpi_bridge.size()}: {what}: "
            f"got {actual.tolist()!r:.300}, expected {expected.tolist()!r:.300}"
        )


def close(what, actual, expected, tolerance):
    actual, expected = np.asarray(actual, "f8"), np.asarray(expected, "f8")
    if actual.shape != expected.shape:
        raise WrongValueError(f"{what}: got shape {actual.shape}, expected {expected.shape}")
    worst = np.abs(actual - expected).max(initial=0.0)
    if not worst <= tolerance:
        raise WrongValueError(
            f"rank {mpi_bridge.rank()} of {mpi_bridge.size()}: {what}: "
            f"differs by {worst}, allowed are {tolerance}"
        )


def same_on_all_ranks(what, array):
    array = np.ascontiguousarray(array)
    everyone = np.empty((mpi_bridge.size(), *array.shape), array.dtype)
    mpi_bridge.allgather(array, everyone)
    for number, other in enumerate(everyone):
        equal(f"{what} of rank {number}", other, array)


def raises(kind, action):
    try:
        action()
    except kind as error:
        return str(error)
    raise WrongValueError(f"rank {mpi_bridge.rank()}: no {kind.__name__} was raised")


def passed():
    mpi_bridge.barrier()
    if mpi_bridge.rank() == 0:
        print(f"passed on {mpi_bridge.size()} ranks", flush=True)
