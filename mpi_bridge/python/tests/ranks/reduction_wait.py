# SPDX-License-Identifier: Apache-2.0
"""Lets a layer wait, in its backward pass, until a gradient of a later layer has been reduced."""

import time

import mpi_bridge
from mpi_bridge import engine

PATIENCE = 60.0  # seconds
WIDTH = 1500  # of the layers: a weight of 9 MB is a part of its own

_reduced_before = [0]
waited = []  # for each backward pass of the step, how many reductions there were by then


def begin_step():
    """Count from here on."""
    _reduced_before[0] = _reductions()
    waited.clear()


def wait_for_a_reduction():
    """Wait until the step has reduced something, or in vain. A single rank reduces nothing."""
    deadline = time.monotonic() + (PATIENCE if mpi_bridge.size() > 1 else 0)
    while _reductions() <= _reduced_before[0] and time.monotonic() < deadline:
        time.sleep(0.001)
    waited.append(_reductions() - _reduced_before[0])


def _reductions():
    return engine.counters()["operations"]["allreduce"]
