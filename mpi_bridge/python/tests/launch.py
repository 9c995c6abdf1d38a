# SPDX-License-Identifier: Apache-2.0
"""Starts a program of ranks/ once for each number of ranks, and tells what its checks said.

MPI_BRIDGE_TEST_LAUNCHER may hold a launcher's command, such as "srun -n4 --mpi=pmix". Without it
programs run as 1 process, and as 2 and 4 under Open MPI's mpirun where that is installed.
"""

import ast
import functools
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

RANKS = Path(__file__).parent / "ranks"
# Starts ranks where there is neither Slurm nor a PMIx launcher, as on a machine with a GPU.
START_RANKS = RANKS.parents[3] / "tests" / "gpu" / "start_ranks.py"
_LAUNCHER = os.environ.get("MPI_BRIDGE_TEST_LAUNCHER")


def launchers():
    """Return the command before the program, by a name for the test's report."""
    if _LAUNCHER:
        return {"launched": shlex.split(_LAUNCHER)}
    found = {"1 rank": []}
    if shutil.which("mpirun"):
        for count in (2, 4):
            command = f"mpirun --allow-run-as-root --oversubscribe -n {count}"
            found[f"{count} ranks"] = shlex.split(command)
    return found


LAUNCHERS = launchers()


def unless_full(*fewer):
    """Return which LAUNCHERS to use for checks that others resemble at each number of ranks.

    Those are `fewer`, and all of them where BATCHAI_TEST_FULL says that each case has to run.
    """
    return tuple(LAUNCHERS) if "BATCHAI_TEST_FULL" in os.environ else (*fewer, "launched")


def run(program, how, seconds=900, arguments=(), **environment):
    # A check that goes wrong on one rank must not keep the others waiting for long.
    patience = {"MPI_BRIDGE_TIMEOUT_SECONDS": "300", "MPI_BRIDGE_STALL_SHUTDOWN_SECONDS": "300"}
    command = [*LAUNCHERS[how], sys.executable, str(RANKS / program), *arguments]
    return subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1", **patience, **environment},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def run_until_a_rank_fails(program, how, argument, seconds):
    """Run a program of which a rank fails while the others wait for it; return what it did.

    The failure must end the step: the others themselves would wait for longer than the `seconds`
    after which this raises an error.
    """
    limit = str(4 * seconds)
    result = run(
        program,
        how,
        seconds=seconds,
        arguments=[argument],
        MPI_BRIDGE_TIMEOUT_SECONDS=limit,
        MPI_BRIDGE_STALL_SHUTDOWN_SECONDS=limit,
    )
    assert result.returncode != 0
    assert "although a rank is missing" not in result.stderr
    return result


def hold_port():
    """Return a socket whose port nobody else gets while it is open, but a rank can listen at."""
    holder = socket.socket()
    # The kernel allows it, because the rank's socket has this option too, and this one is silent.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


@functools.cache
def _outcome(programs, how, environment):
    paths = [str(RANKS / program) for program in programs]
    return run("rows.py", how, arguments=paths, **dict(environment))


def checks(*programs, hows=None):
    """Parametrize a test with every check of some programs under every launcher, or some."""
    names = [
        node.name
        for program in programs
        for node in ast.parse((RANKS / program).read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
    ]
    cases = [(how, name) for how in LAUNCHERS if how in (hows or LAUNCHERS) for name in names]
    return pytest.mark.parametrize(("how", "name"), cases)


def assert_passed(programs, how, name, **environment):
    assert_passed_in(_outcome(programs, how, tuple(environment.items())), name)


def assert_passed_in(result, name):
    if re.search(rf"^PASSED {name}$", result.stdout, re.MULTILINE):
        return
    skipped = re.search(rf"^SKIPPED {name}: (.*)$", result.stdout, re.MULTILINE)
    if skipped:
        pytest.skip(skipped[1])
    texts = re.findall(
        rf"^FAILED {name} on.*?(?=^(?:PASSED|FAILED) |\Z)", result.stdout, re.M | re.S
    )
    pytest.fail("\n".join(texts) or result.stdout + result.stderr, pytrace=False)
