# SPDX-License-Identifier: GPL-2.0-or-later
"""What was measured, and how it is kept.

A turn is one size of one collective in one round: all libraries one after the other, within
seconds. Ratios are of times of one turn, so that what changes on the machine from turn to turn,
such as the distance of a virtual machine's cores, is in both times.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness import measurements
from harness.machine import Machine

from .candidates import BY_KEY, CANDIDATES, Candidate
from .cases import CASES, COLLECTIVES, Case

# Ping-pong times of one distance differ by less than this.
_SAME_DISTANCE = 1.7


@dataclass(frozen=True)
class Time:
    """One size of one library in one turn; see measure.hpp."""

    median_us: float
    tenth_us: float
    ninetieth_us: float
    iterations: int


@dataclass
class Turn:
    """One size of one collective in one round."""

    case: str
    collective: str
    size: int
    round: int
    pingpong_ns: tuple[float, float]  # before and after
    load: float
    times: dict[str, Time] = field(default_factory=dict)  # by the candidate's key
    errors: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        """Each time as a list."""
        data = asdict(self)
        data["times"] = {key: list(time.values()) for key, time in data["times"].items()}
        return data

    @classmethod
    def from_dict(cls, data: dict) -> Turn:
        data["times"] = {key: Time(*values) for key, values in data["times"].items()}
        data["pingpong_ns"] = tuple(data["pingpong_ns"])
        return cls(**data)


@dataclass(frozen=True)
class Joined:
    """A library as it called itself, and how it was started."""

    case: str
    candidate: str
    library: str
    command: str


@dataclass
class Run:
    """Everything that was measured, with the circumstances."""

    machine: dict[str, object]
    sentence: str
    joined: list[Joined] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)  # candidates that could not be run
    remarks: list[str] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """What is kept, and what `load` reads."""
        return {
            "machine": self.machine,
            "sentence": self.sentence,
            "joined": [asdict(each) for each in self.joined],
            "missing": self.missing,
            "remarks": self.remarks,
            "columns": ["median_us", "tenth_us", "ninetieth_us", "iterations"],
            "turns": [turn.as_dict() for turn in self.turns],
        }

    def save(self, path: Path) -> None:
        path.write_text(measurements.text(self.as_dict()))

    @classmethod
    def load(cls, path: Path) -> Run:
        """What `save` wrote."""
        data = json.loads(path.read_text())
        return cls(
            data["machine"],
            data["sentence"],
            [Joined(**each) for each in data["joined"]],
            data["missing"],
            data["remarks"],
            [Turn.from_dict(turn) for turn in data["turns"]],
        )

    def add(self, other: Run) -> None:
        """Takes the cases that another run has and this one has not; BenchError if it can't."""
        circumstances = Machine(**self.machine).beside(Machine(**other.machine))
        self.machine, self.sentence = circumstances.as_dict(), circumstances.sentence()
        measured = {turn.case for turn in self.turns}
        self.turns += [turn for turn in other.turns if turn.case not in measured]
        started = {(each.case, each.candidate) for each in self.joined}
        self.joined += [each for each in other.joined if (each.case, each.candidate) not in started]
        self.missing = other.missing | self.missing
        self.remarks += [remark for remark in other.remarks if remark not in self.remarks]

    def cases(self) -> list[Case]:
        """The cases that were measured, in their usual order."""
        measured = {turn.case for turn in self.turns}
        return [case for case in CASES if case.key in measured]

    def collectives(self, case: Case) -> list[str]:
        measured = {turn.collective for turn in self.turns if turn.case == case.key}
        return [collective for collective in COLLECTIVES if collective in measured]

    def of(self, case: Case, collective: str, size: int | None = None) -> list[Turn]:
        """The turns of a collective; of one size, if that is said."""
        return [
            turn
            for turn in self.turns
            if (turn.case, turn.collective) == (case.key, collective) and size in (None, turn.size)
        ]

    def sizes(self, case: Case, collective: str) -> list[int]:
        return sorted({turn.size for turn in self.of(case, collective)})

    def candidates(self, case: Case, collective: str) -> list[Candidate]:
        """Those that gave a result, in their usual order."""
        measured = {key for turn in self.of(case, collective) for key in turn.times}
        return [candidate for candidate in CANDIDATES if candidate.key in measured]

    def failures(self, case: Case) -> Iterable[str]:
        """A line for each way in which a library failed, with the first size of it."""
        first: dict[tuple[str, str, str], int] = {}
        for turn in self.turns:
            if turn.case == case.key:
                for key, error in turn.errors.items():
                    first.setdefault((key, turn.collective, error), turn.size)
        for (key, collective, error), size in first.items():
            yield f"{BY_KEY[key].label}, {collective} of {size} bytes: {error}"

    def regime(self) -> tuple[float, float]:
        """The least and the largest ping-pong time of the distance that most turns had."""
        times = [time for turn in self.turns for time in turn.pingpong_ns]
        low, high = min(times), max(times)
        if high / low < _SAME_DISTANCE:
            return low, high
        border = math.sqrt(low * high)
        near = [time for time in times if time < border]
        far = [time for time in times if time >= border]
        chosen = near if len(near) >= len(far) else far
        return min(chosen), max(chosen)
