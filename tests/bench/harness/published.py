# SPDX-License-Identifier: GPL-2.0-or-later
"""What the benchmarks that measure the installed project on a test cluster do alike."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from . import document, machine, measurements
from .cluster import BenchError, TestCluster

SOURCE = Path(__file__).resolve().parents[3]
_MINICLUSTER = SOURCE / "tests/cluster/minicluster"

Rows = list[dict[str, float]]


def parser(description: str | None, rounds: int) -> argparse.ArgumentParser:
    """The options that all of them have."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--prefix", type=Path, required=True, help="where the project is installed")
    made.add_argument("--rounds", type=int, default=rounds, help=f"[{rounds}]")
    made.add_argument("--cluster", default="bench", help="name of the test cluster [bench]")
    made.add_argument("--note", default="", help="a sentence to put before the results")
    made.add_argument("--publish", action="store_true", help="put the results into docs/ too")
    return made


@contextmanager
def with_project(name: str, nodes: int, prefix: Path, traits: str = "") -> Iterator[TestCluster]:
    """A cluster on which the project is installed, ended afterwards."""
    up = [str(_MINICLUSTER), "up", "-n", str(nodes), "--name", name, "--prefix", str(prefix)]
    up += ["--with", traits] if traits else []
    subprocess.run(up, check=True)
    try:
        yield TestCluster(name)
    finally:
        subprocess.run([str(_MINICLUSTER), "down", "--name", name], check=True)


def start_host(cluster: str, host: str) -> None:
    """Starts the slurmd of a host of the cluster again."""
    words = [str(_MINICLUSTER), "start", "--name", cluster, "--host", host]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def main(
    name: str,
    arguments: argparse.Namespace,
    measure: Callable[[argparse.Namespace], Rows],
    table: Callable[[Rows], str],
) -> int:
    """Measures, prints the table, and publishes it where that is asked for."""
    try:
        circumstances = machine.this_machine(arguments.publish)
        rows = measure(arguments)
        section = f"{arguments.note} {circumstances.sentence()}".strip() + f"\n\n{table(rows)}"
        if arguments.publish:
            results = {"machine": circumstances.as_dict(), "rounds": rows}
            measurements.publish(name, results)
            document.replace_section(SOURCE / "docs/performance.md", name, section)
        print(section)
    except (BenchError, subprocess.CalledProcessError) as error:
        print(f"run: {error}", file=sys.stderr)
        return 1
    return 0
