# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of ranks/, alone or under a launcher; needs libmpi_bridge.

MPI_BRIDGE_TEST_LAUNCHER holds the launcher's command, such as "srun -n4 --mpi=pmix"; without it
each program runs as one rank. A program that finds a wrong value exits with an error.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

RANKS = Path(__file__).parent / "ranks"
LAUNCHER = shlex.split(os.environ.get("MPI_BRIDGE_TEST_LAUNCHER", ""))


def run(program, seconds=600, **environment):
    return subprocess.run(
        [*LAUNCHER, sys.executable, str(RANKS / program)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def passes(program, **environment):
    result = run(program, **environment)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "passed on" in result.stdout


def test_collectives():
    pytest.importorskip("ml_dtypes")
    passes("collectives.py")


@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_keras(backend):
    pytest.importorskip("keras")
    pytest.importorskip(backend)
    passes("keras_training.py", KERAS_BACKEND=backend)


def test_a_rank_that_dies_of_an_exception_ends_the_step():
    # The failing rank ends the step, and not the others' own limit: run() raises an error if they
    # are still there after its time.
    result = run("uncaught_exception.py", MPI_BRIDGE_TIMEOUT_SECONDS="1200")
    assert result.returncode != 0
    assert "this rank fails on purpose" in result.stderr
    assert "although a rank is missing" not in result.stderr
