# SPDX-License-Identifier: GPL-2.0-or-later
"""What mpi_bridge has set out to reach, and whether a run reached it."""

from __future__ import annotations

from dataclasses import dataclass

from .blocks import Run
from .cases import CASES, MI, Case
from .words import quantity, size_name


@dataclass(frozen=True)
class Target:
    """A time for one size in one case; without `microseconds`, less than every other library's."""

    case: str
    size: int
    candidate: str
    microseconds: float | None = None


TARGETS = (
    Target("node2", 8, "ours", 0.15),
    Target("node2", 8, "ours_engine", 1.0),
    Target("node2", MI, "ours", 36),
    Target("node2", MI, "ours_shared", 9),
    Target("node2", 64 * MI, "ours", 4600),
    Target("node2", 64 * MI, "ours_shared", 3700),
    Target("node2", 256 * MI, "ours", 20_000),
    Target("node2", 256 * MI, "ours_shared", 16_000),
    Target("node4", 8, "ours", 4.5),
    Target("node4", MI, "ours", 110),
    Target("node4", 64 * MI, "ours", 11_000),
    Target("hosts4", 8, "ours"),
    Target("hosts4", MI, "ours"),
    Target("hosts4", 64 * MI, "ours"),
)


def _best_peer(run: Run, case: Case, size: int) -> tuple[float, str] | None:
    """Of all, at whatever distance of the cores: leaving one out is no way to win."""
    times = []
    for candidate in run.candidates(case):
        result = None if candidate.ours else run.result(case, candidate, size)
        if result:
            mark = "" if result.in_regime else " \\*"
            times.append((result.microseconds, candidate.label + mark))
    return min(times, default=None)


def _row(run: Run, target: Target) -> str | None:
    case = next(case for case in CASES if case.key == target.case)
    candidate = next((each for each in run.candidates(case) if each.key == target.candidate), None)
    result = candidate and run.result(case, candidate, target.size)
    if candidate is None or result is None:
        return None
    peer = _best_peer(run, case, target.size)
    # The time that the target leaves: its own, or the best peer's.
    limit = target.microseconds if target.microseconds else peer and peer[0]
    verdict = "–" if limit is None else "met" if result.microseconds <= limit else "**missed**"
    reach = f"≤ {quantity(target.microseconds)}" if target.microseconds else "the best peer's"
    beside = f"{quantity(peer[0])} ({peer[1]})" if peer else "–"
    factor = f"{peer[0] / result.microseconds:.1f}" if peer else "–"
    mark = "" if result.in_regime else " \\*"
    return (
        f"| {case.title} | {size_name(target.size)} | {candidate.label} | {beside} | {reach}"
        f" | {quantity(result.microseconds)}{mark} | {factor} | {verdict} |"
    )


def table(run: Run) -> str:
    """Targets beside what was measured; only of what the run has measured."""
    rows = [row for row in (_row(run, target) for target in TARGETS) if row]
    if not rows:
        return ""
    head = (
        "| case | bytes | what | best peer | target | measured | times faster | |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"
