# SPDX-License-Identifier: GPL-2.0-or-later
"""Libraries that live side by side and are asked for one measurement at a time.

A session is one launch of one library. Its ranks take their orders from named pipes in a folder
that all hosts see, see requests.hpp: between two orders they sleep outside their library.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import Any

from harness import wheels
from harness.cluster import SHARED, BenchError, Command, TestCluster

from . import launching
from .candidates import Candidate
from .cases import Case

_START_SECONDS = 120
_POINT_SECONDS = 90
_END_SECONDS = 20
_LIFE_SECONDS = 24 * 3600

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Order:
    """What a session is to measure."""

    collective: str
    size: int
    seconds: float
    check: bool

    def line(self) -> bytes:
        how = "check" if self.check else "time"
        return f"{self.collective} {self.size} {self.seconds} {how}\n".encode()


class _Process:
    """A command on the cluster whose lines are read with a deadline."""

    def __init__(self, cluster: TestCluster, command: Command) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 lives as long as the process
        self._process = cluster.start(command, _LIFE_SECONDS, self._errors)
        self._pending = b""

    def line(self, deadline: float) -> str:
        """The next line of output; BenchError when none comes in time."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise BenchError("no answer in time")
            data = os.read(descriptor, 1 << 16)
            if not data:
                raise BenchError(self._complaint())
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode(errors="replace")

    def _complaint(self) -> str:
        """Why it ended: what a rank said, else the last words of its launcher."""
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return "it says no more, but does not end"
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        said = [line for line in lines if "bench_" in line and ": " in line]
        return f"exit code {code}" + (f": {(said or lines)[-1][:300]}" if lines else "")

    def end(self, seconds: float) -> None:
        """Waits for its end, then brings it about."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            try:
                self._process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._errors.close()


class Allocation:
    """The hosts of a case, for all its sessions together."""

    def __init__(self, cluster: TestCluster, case: Case) -> None:
        self._process = _Process(cluster, Command(launching.allocation(case)))
        variables = []
        deadline = time.monotonic() + _START_SECONDS
        while line := self._process.line(deadline):
            if line.startswith("SLURM_"):
                variables.append(line)
        self.variables = tuple(variables)

    def end(self) -> None:
        self._process.end(0)


class Session:
    """One launch of one library; `head` is what it said of itself."""

    def __init__(
        self, cluster: TestCluster, case: Case, candidate: Candidate, allocated: tuple[str, ...]
    ) -> None:
        name = f"{case.key}-{candidate.key}-{os.getpid()}-{next(_numbers)}"
        folder = cluster.shared / "sessions" / name
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        self._pipes = []
        for rank in range(launching.ranks(case, candidate)):
            os.mkfifo(folder / str(rank))
            (folder / str(rank)).chmod(0o666)
            # Also for reading, which does not wait for the rank; its end ends the rank's reading.
            self._pipes.append(os.open(folder / str(rank), os.O_RDWR | os.O_CLOEXEC))
        command = launching.launch(case, candidate, f"{SHARED}/sessions/{name}", allocated)
        settings = [word for word in command.environment if not word.startswith("SLURM_")]
        # As a reader elsewhere would give it.
        self.command = " ".join([*settings, *command.words]).replace(str(wheels.home()), "WHEELS")
        self._process = _Process(cluster, command)
        try:
            self.head = self._answer(_START_SECONDS)
        except BenchError:
            self.end(0)
            raise

    def _answer(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while not (line := self._process.line(deadline)).startswith("{"):
            pass  # the launcher's own words
        try:
            return json.loads(line)
        except ValueError as error:
            raise BenchError(f"not JSON: {line}") from error

    def measure(self, order: Order) -> dict[str, Any]:
        """What rank 0 printed."""
        for pipe in self._pipes:
            os.write(pipe, order.line())
        return self._answer(_POINT_SECONDS)

    def end(self, seconds: float = _END_SECONDS) -> None:
        """Lets the ranks go."""
        for pipe in self._pipes:
            os.close(pipe)
        self._pipes = []
        self._process.end(seconds)
