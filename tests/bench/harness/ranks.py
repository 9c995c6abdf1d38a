# SPDX-License-Identifier: GPL-2.0-or-later
"""What the benchmarks that start ranks on this host, without a test cluster, do alike."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from .cluster import BenchError

SOURCE = Path(__file__).resolve().parents[3]
_LAUNCH_SECONDS = 300
_END_SECONDS = 20


def on_this_host(ranks: int) -> str:
    """The command that starts so many ranks of the command that follows."""
    return f"mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -n {ranks}"


def environment_without_ours() -> dict[str, str]:
    """The environment of ranks that use a library of others."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    variables.pop("PYTHONPATH", None)
    return variables


def environment(build: Path) -> dict[str, str]:
    """The environment of ranks that use the library in a build directory."""
    return {
        **environment_without_ours(),
        "PYTHONPATH": str(SOURCE / "mpi_bridge/python"),
        "MPI_BRIDGE_LIBRARY": str(build.resolve() / "mpi_bridge/libmpi_bridge.so.0"),
    }


def output_of(words: list[str], variables: dict[str, str]) -> str:
    """Run a launcher to its end. Whatever ends this wait ends the ranks too."""
    launcher = subprocess.Popen(
        words,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # The keys of the terminal reach only this process, which ends the launcher.
        start_new_session=True,
    )
    try:
        output, errors = launcher.communicate(timeout=_LAUNCH_SECONDS)
    except subprocess.TimeoutExpired as error:
        _end(launcher)
        raise BenchError(f"no end after {_LAUNCH_SECONDS} s") from error
    except BaseException:
        _end(launcher)
        raise
    if launcher.returncode != 0:
        raise BenchError(errors[-2000:])
    return output


def _end(launcher: subprocess.Popen[str]) -> None:
    """End a launcher and its ranks, which it would leave behind if it were killed at once."""
    launcher.terminate()
    try:
        launcher.communicate(timeout=_END_SECONDS)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.communicate()


def size(count: int) -> str:
    """A number of bytes for people."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count // factor} {unit}"
    return f"{count} B"


def duration(seconds: float) -> str:
    """A time for people, with three digits."""
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} µs"
