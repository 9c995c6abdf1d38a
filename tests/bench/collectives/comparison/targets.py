# SPDX-License-Identifier: GPL-2.0-or-later
"""How fast mpi_bridge has set out to be beside others, and whether a run reached it."""

from __future__ import annotations

from dataclasses import dataclass

from . import ratios
from .candidates import BY_KEY
from .cases import CASES, KI, MI, Case
from .results import Run
from .words import quantity, size_name

_OURS = BY_KEY["ours"]
_ENGINE = BY_KEY["ours_engine"]
_SMALLEST = 8
# What the engine may take on one host, however fast the raw call is.
_ENGINE_US = 0.40
_ENGINE_RATIO = 1.5


@dataclass(frozen=True)
class Goal:
    """At each size from `first` and below `end`: at least `speed` times as fast as each peer."""

    case: str
    first: int
    end: int
    speed: float


GOALS = (
    Goal("node2", 0, 16 * MI, 1.3),
    Goal("node2", 16 * MI, 1 << 62, 4),
    Goal("node4", 0, 1 << 62, 1.3),
    Goal("hosts4", 0, 256 * KI, 1),
    Goal("hosts4", 256 * KI, 1 << 62, 1.2),
)


def _case(key: str) -> Case:
    return next(case for case in CASES if case.key == key)


def _goal_row(run: Run, goal: Goal, collective: str) -> str | None:
    case = _case(goal.case)
    speeds = {}
    for size in run.sizes(case, collective):
        peer = ratios.to_best_peer(run, case, collective, size, _OURS)
        if peer is not None and goal.first <= size < goal.end:
            speeds[size] = (1 / peer.value, BY_KEY[peer.other].label)
    if not speeds:
        return None
    reached = sum(speed >= goal.speed for speed, _ in speeds.values())
    worst = min(speeds, key=lambda size: speeds[size][0])
    speed, peer_label = speeds[worst]
    verdict = "met" if reached == len(speeds) else "**missed**"
    return (
        f"| {case.title} | {collective} | {size_name(min(speeds))} to {size_name(max(speeds))}"
        f" | {goal.speed:g} × | {reached} of {len(speeds)} sizes"
        f" | {speed:.2f} × at {size_name(worst)} ({peer_label}) | {verdict} |"
    )


def _engine_row(run: Run, case: Case) -> str | None:
    engine = ratios.time(run, case, "allreduce", _SMALLEST, _ENGINE.key)
    raw = ratios.time(run, case, "allreduce", _SMALLEST, _OURS.key)
    pair = ratios.ratio(run, case, "allreduce", _SMALLEST, (_ENGINE.key, _OURS.key))
    if engine is None or raw is None or pair is None:
        return None
    enough = not case.over_network and engine <= _ENGINE_US
    met = enough or pair <= _ENGINE_RATIO
    goal = f"{_ENGINE_RATIO} × the raw call"
    if not case.over_network:
        goal = f"{quantity(_ENGINE_US)} or {goal}"
    return (
        f"| {case.title} | engine, {size_name(_SMALLEST)} | {goal} | {quantity(engine)}"
        f" | {pair:.2f} × the raw {quantity(raw)} | {'met' if met else '**missed**'} |"
    )


def table(run: Run) -> str:
    """Goals beside what was measured; only of what the run has measured."""
    text = ""
    rows = [
        row
        for goal in GOALS
        for collective in run.collectives(_case(goal.case))
        if (row := _goal_row(run, goal, collective))
    ]
    if rows:
        text += (
            "| mpi_bridge's blocking call | | sizes | goal: as fast as any peer | reached at"
            " | worst | |\n|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
        )
    cases = (_case(key) for key in ("node2", "hosts4"))
    rows = [row for case in cases if (row := _engine_row(run, case))]
    if rows:
        text += (
            "\n| mpi_bridge's engine | | goal | measured | | |\n|---|---|---|---|---|---|\n"
            + "\n".join(rows)
            + "\n"
        )
    return text
