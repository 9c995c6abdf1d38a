# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether mpi_bridge has become slower, beside its peers, than an earlier run found.

Times of two runs cannot be compared, because the machine or its load is another one. The ratio to
a peer can, on one kind of processor: both times are of one turn. On another kind, caches change the
ratio, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.machine import Machine

from . import ratios
from .candidates import BY_KEY, CANDIDATES
from .cases import Case
from .results import Run
from .words import size_name

# Of the time over the best peer's.
MOST_SLOWER = 1.2


@dataclass(frozen=True)
class Row:
    """One size of one collective in both runs, over the best peer of those that both have."""

    case: Case
    collective: str
    size: int
    candidate: str
    before: float
    now: float

    @property
    def slower(self) -> float:
        return self.now / self.before

    def text(self) -> str:
        return (
            f"{self.case.title}, {self.collective} of {size_name(self.size)},"
            f" {BY_KEY[self.candidate].label}: {self.now:.2f} × the best peer's time,"
            f" {self.before:.2f} × before: {self.slower:.2f} × as long"
        )


def why_not_comparable(run: Run, before: Run) -> str:
    """Why the gate cannot tell what the code has changed; "" if it can."""
    here, there = Machine(**run.machine), Machine(**before.machine)
    if here.is_like(there):
        return ""
    return (
        f"the earlier run was on {there.processors} × {there.processor}, this one on"
        f" {here.processors} × {here.processor}: build the earlier commit here, measure that build"
        " with --build and --no-build, and give its results.json to --gate"
    )


def rows(run: Run, before: Run) -> list[Row]:
    """All that both runs have measured of mpi_bridge and of at least one peer."""
    ours = [each.key for each in CANDIDATES if each.ours and not each.algorithm]
    peers = [each.key for each in CANDIDATES if each.peer]
    found = []
    for case in run.cases():
        for collective in run.collectives(case):
            for size in run.sizes(case, collective):
                for key in ours:
                    pairs = [(key, peer) for peer in peers]
                    values = [
                        (then, now)
                        for pair in pairs
                        if (then := ratios.ratio(before, case, collective, size, pair)) is not None
                        and (now := ratios.ratio(run, case, collective, size, pair)) is not None
                    ]
                    if values:
                        then, now = (max(each) for each in zip(*values))
                        found.append(Row(case, collective, size, key, then, now))
    return found


def failed(run: Run) -> list[str]:
    """What of mpi_bridge has no time because it failed, in words."""
    return [
        f"failed: {turn.collective} of {size_name(turn.size)}, {turn.case},"
        f" {BY_KEY[key].label}: {error}"
        for turn in run.turns
        for key, error in turn.errors.items()
        if BY_KEY[key].ours
    ]


def slower(run: Run, before: Run) -> list[Row]:
    """The rows that fail the gate, the worst first."""
    failed = [row for row in rows(run, before) if row.slower > MOST_SLOWER]
    return sorted(failed, key=lambda row: -row.slower)
