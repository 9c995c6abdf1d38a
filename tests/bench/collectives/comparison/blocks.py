# SPDX-License-Identifier: GPL-2.0-or-later
"""Running blocks: one library, all sizes, between two looks at the distance of the cores.

Results are comparable only while the processors keep their distance: a virtual machine's may be
moved. So the ping-pong time is taken before and after every block, the libraries take turns round
by round, and a block counts only where its distance is that of most blocks of the run.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness.cluster import BenchError, TestCluster

from .cases import CANDIDATES, CASES, Candidate, Case, launch

_BLOCK_SECONDS = 240
# Ping-pong times of one distance differ by less than this.
_SAME_DISTANCE = 1.7


@dataclass(frozen=True)
class Point:
    """One size of one block; see measure.hpp."""

    bytes: int
    iterations: int
    median_us: float
    tenth_us: float
    ninetieth_us: float
    received_bytes: float


@dataclass(frozen=True)
class Block:
    """One launch of one library."""

    case: str
    candidate: str
    round: int
    command: str
    pingpong_ns: tuple[float, float]  # before and after
    load: float
    library: str = ""
    timestamp_ns: float = 0.0
    points: tuple[Point, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Result:
    """What is shown of all rounds of one size of one library."""

    microseconds: float
    in_regime: bool


@dataclass
class Run:
    """Everything that was measured, with the circumstances."""

    machine: dict[str, object]
    sentence: str
    blocks: list[Block] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """As JSON, one block a line."""
        head = {"machine": self.machine, "sentence": self.sentence}
        lines = ",\n".join(json.dumps(asdict(block)) for block in self.blocks)
        path.write_text(f'{json.dumps(head)[:-1]}, "blocks": [\n{lines}\n]}}\n')

    @classmethod
    def load(cls, path: Path) -> Run:
        """What `save` wrote."""
        data = json.loads(path.read_text())
        blocks = []
        for entry in data["blocks"]:
            entry["points"] = tuple(Point(**point) for point in entry["points"])
            entry["pingpong_ns"] = tuple(entry["pingpong_ns"])
            blocks.append(Block(**entry))
        return cls(data["machine"], data["sentence"], blocks)

    def cases(self) -> list[Case]:
        """The cases that were measured, in their usual order."""
        measured = {block.case for block in self.blocks}
        return [case for case in CASES if case.key in measured]

    def candidates(self, case: Case) -> list[Candidate]:
        """The libraries that gave a result in a case."""
        measured = {block.candidate for block in self._of(case.key) if block.points}
        return [candidate for candidate in CANDIDATES if candidate.key in measured]

    def sizes(self, case: Case) -> list[int]:
        return sorted({point.bytes for block in self._of(case.key) for point in block.points})

    def failures(self, case: Case) -> list[Block]:
        return [block for block in self._of(case.key) if block.error]

    def result(self, case: Case, candidate: Candidate, size: int) -> Result | None:
        """The median over the rounds of the run's regime; where it has none, over all rounds."""
        inside, outside = [], []
        for block in self._of(case.key):
            if block.candidate == candidate.key:
                times = inside if self.in_regime(block) else outside
                times += [point.median_us for point in block.points if point.bytes == size]
        if inside:
            return Result(statistics.median(inside), True)
        return Result(statistics.median(outside), False) if outside else None

    def regime(self) -> tuple[float, float]:
        """The least and the largest ping-pong time of the distance that most blocks had."""
        times = [time for block in self.blocks for time in block.pingpong_ns]
        low, high = min(times), max(times)
        if high / low < _SAME_DISTANCE:
            return low, high
        border = math.sqrt(low * high)
        near = [time for time in times if time < border]
        far = [time for time in times if time >= border]
        chosen = near if len(near) >= len(far) else far
        return min(chosen), max(chosen)

    def in_regime(self, block: Block) -> bool:
        low, high = self.regime()
        return all(low <= time <= high for time in block.pingpong_ns)

    def _of(self, case: str) -> Iterable[Block]:
        return (block for block in self.blocks if block.case == case)


def _points(case: Case, lines: list[str]) -> tuple[dict[str, object], tuple[Point, ...]]:
    if not lines:
        return {}, ()
    head, *rest = (json.loads(line) for line in lines)
    points = tuple(Point(**entry) for entry in rest)
    for point in points:
        if case.hosts > 1 and point.received_bytes < point.bytes:
            raise BenchError(
                f"{point.bytes} bytes were reduced, but a host received only"
                f" {point.received_bytes:.0f}: the data did not go over the network"
            )
    return head, points


def measure(
    cluster: TestCluster, case: Case, candidate: Candidate, sizes: tuple[int, ...], seconds: float
) -> dict[str, object]:
    """Runs a block; returns what it adds to a Block."""
    command = launch(case, candidate, sizes, seconds)
    answer = cluster.run(command, _BLOCK_SECONDS)
    found: dict[str, object] = {"command": command.text()}
    try:
        lines = [line for line in answer.output.splitlines() if line.startswith("{")]
        head, points = _points(case, lines)
    except (BenchError, ValueError, TypeError) as error:
        return {**found, "error": str(error)}
    if answer.code != 0 or len(points) != len(sizes):
        found["error"] = f"{answer.complaint()}, after {len(points)} of {len(sizes)} sizes"
    if head:
        found |= {"library": head["library"], "timestamp_ns": head["timestamp_ns"]}
    return {**found, "points": points}
