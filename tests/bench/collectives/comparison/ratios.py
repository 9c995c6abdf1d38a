# SPDX-License-Identifier: GPL-2.0-or-later
"""What several rounds say together, such that chance in one of them cannot decide.

Which peer is best, and which algorithm would have been, is not looked for round by round: the least
of several noisy times is less than any of them deserves. Each pair is compared over all rounds, by
the median of its ratios, and the least favourable of these medians counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from .candidates import ALLREDUCE_ALGORITHMS, LIMIT, Candidate
from .cases import Case
from .results import Run

MOST_REGRET = 1.3


@dataclass(frozen=True)
class Ratio:
    """How many times as long something took as the other thing did."""

    value: float
    other: str


@dataclass(frozen=True)
class Regret:
    """What the choice of an algorithm costs at one size."""

    size: int
    chosen_us: float
    algorithms_us: dict[str, float]
    value: float  # the time of what was chosen over that of the best
    rounds: tuple[float, float]  # the least and the largest such ratio of a round
    best: str

    @property
    def met(self) -> bool:
        return self.value <= MOST_REGRET


def time(run: Run, case: Case, collective: str, size: int, key: str) -> float | None:
    """The median over the rounds at the distance of the cores that most turns of the run had."""
    turns = [turn for turn in run.of(case, collective, size) if key in turn.times]
    low, high = run.regime()
    usual = [turn for turn in turns if all(low <= each <= high for each in turn.pingpong_ns)]
    times = [turn.times[key].median_us for turn in usual or turns]
    return statistics.median(times) if times else None


def _of_rounds(
    run: Run, case: Case, collective: str, size: int, keys: tuple[str, str]
) -> list[float]:
    return [
        turn.times[keys[0]].median_us / turn.times[keys[1]].median_us
        for turn in run.of(case, collective, size)
        if keys[0] in turn.times and keys[1] in turn.times
    ]


def ratio(run: Run, case: Case, collective: str, size: int, keys: tuple[str, str]) -> float | None:
    """The median over the rounds of the first one's time over the second one's."""
    values = _of_rounds(run, case, collective, size, keys)
    return statistics.median(values) if values else None


def _worst(
    run: Run, case: Case, collective: str, size: int, key: str, others: Iterable[str]
) -> Ratio | None:
    found = ((ratio(run, case, collective, size, (key, other)), other) for other in others)
    ratios = [Ratio(value, other) for value, other in found if value is not None]
    return max(ratios, key=lambda each: each.value, default=None)


def to_best_peer(
    run: Run, case: Case, collective: str, size: int, candidate: Candidate
) -> Ratio | None:
    """Beside the peer that this size is hardest against; below 1, ours is faster than all."""
    peers = [each.key for each in run.candidates(case, collective) if each.peer]
    return _worst(run, case, collective, size, candidate.key, peers)


def to_limit(
    run: Run, case: Case, collective: str, size: int, candidate: Candidate
) -> float | None:
    return ratio(run, case, collective, size, (candidate.key, LIMIT))


def regrets(run: Run, case: Case) -> list[Regret]:
    """Of each size at which algorithms were pinned in turn."""
    found = []
    keys = {f"ours_{algorithm}": algorithm for algorithm in ALLREDUCE_ALGORITHMS}
    for size in run.sizes(case, "allreduce"):
        worst = _worst(run, case, "allreduce", size, "ours", keys)
        chosen = time(run, case, "allreduce", size, "ours")
        if worst is None or chosen is None:
            continue
        times = {
            algorithm: microseconds
            for key, algorithm in keys.items()
            if (microseconds := time(run, case, "allreduce", size, key)) is not None
        }
        rounds = _of_rounds(run, case, "allreduce", size, ("ours", worst.other))
        ends = (min(rounds), max(rounds))
        found.append(Regret(size, chosen, times, worst.value, ends, keys[worst.other]))
    return found
