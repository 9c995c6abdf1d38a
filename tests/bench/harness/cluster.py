# SPDX-License-Identifier: GPL-2.0-or-later
"""The test cluster as a benchmark uses it: programs are copied to it and run by its user."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_SOURCE = Path(__file__).resolve().parents[3]
_MINICLUSTER = _SOURCE / "tests/cluster/minicluster"
SHARED = "/shared"
PROGRAMS = f"{SHARED}/bench"
LOGIN = "login"


class BenchError(Exception):
    """What keeps a benchmark from being run; the text says what to do."""


@dataclass(frozen=True)
class Command:
    """A command line with its settings, and the host that it is given on."""

    words: tuple[str, ...]
    environment: tuple[str, ...] = ()
    host: str = LOGIN

    def text(self) -> str:
        return " ".join([*self.environment, *self.words])


@dataclass(frozen=True)
class Answer:
    code: int
    output: str
    errors: str

    def complaint(self) -> str:
        """The last words of what went wrong."""
        lines = [line for line in self.errors.splitlines() if line.strip()]
        return f"exit code {self.code}" + (f": {lines[-1].strip()}" if lines else "")


class TestCluster:
    """A running cluster; see `started`."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def shared(self) -> Path:
        """Where this machine has the directory that all hosts see as SHARED."""
        home = os.environ.get("MINICLUSTER_HOME") or "/var/lib/minicluster"
        return Path(home).absolute() / self._name / "shared"

    def _words(self, command: Command, seconds: int, user: str) -> list[str]:
        settings = [word for each in command.environment for word in ("--env", each)]
        return [
            *(str(_MINICLUSTER), "exec", "--name", self._name, "--user", user),
            *("--host", command.host, *settings, "--"),
            *("timeout", "--kill-after=10", str(seconds), *command.words),
        ]

    def run(
        self, command: Command, seconds: int, user: str = "alice", source: Path = Path(os.devnull)
    ) -> Answer:
        """Runs the command with `source` as its input; after so many seconds it is ended."""
        argv = self._words(command, seconds, user)
        with source.open("rb") as stdin:
            done = subprocess.run(argv, stdin=stdin, capture_output=True, text=True, check=False)
        return Answer(done.returncode, done.stdout, done.stderr)

    def start(self, command: Command, seconds: int, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        """Starts the command, which lives on until it ends or is told to by SIGTERM."""
        return subprocess.Popen(
            self._words(command, seconds, "alice"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )

    def copy(self, files: Sequence[Path]) -> None:
        """Puts files of the machine, executable, into the directory PROGRAMS of all hosts."""
        script = 'mkdir -p "$1" && cat > "$1/$2" && chmod 755 "$1/$2"'
        for file in files:
            command = Command(("sh", "-c", script, "sh", PROGRAMS, file.name))
            answer = self.run(command, 60, "root", file)
            if answer.code != 0:
                raise BenchError(f"{file} cannot be copied to the cluster: {answer.complaint()}")


@contextmanager
def started(name: str, hosts: int) -> Iterator[TestCluster]:
    """A cluster of so many hosts, ended afterwards."""
    if os.geteuid() != 0:
        raise BenchError("the test cluster needs root")
    up = [str(_MINICLUSTER), "up", "-n", str(hosts), "--name", name]
    if subprocess.run(up, check=False).returncode != 0:
        raise BenchError(f"the test cluster {name} does not start")
    try:
        yield TestCluster(name)
    finally:
        subprocess.run([str(_MINICLUSTER), "down", "--name", name], check=True)


def build(directory: Path, target: str) -> None:
    """Brings the programs of a configured build directory up to date."""
    if not (directory / "CMakeCache.txt").is_file():
        raise BenchError(
            f"{directory} is not a build directory; run: cmake --preset release -B {directory}"
        )
    done = subprocess.run(["cmake", "--build", str(directory), "--target", target], check=False)
    if done.returncode != 0:
        raise BenchError(f"the target {target} does not build in {directory}")


def built_files(directory: Path, part: str) -> list[Path]:
    """The programs of one part of tests/bench, and our library under the name they load it by."""
    programs = sorted((directory / "tests/bench" / part).glob("bench_*"))
    return [*programs, directory / "mpi_bridge/libmpi_bridge.so.0"]
