# SPDX-License-Identifier: GPL-2.0-or-later
"""How fast mpi_bridge has set out to be beside others, and whether a run reached it."""

from __future__ import annotations

from dataclasses import dataclass

from . import ratios
from .candidates import BY_KEY
from .cases import CASES, COLLECTIVES, KI, MI, Case
from .results import Run
from .words import quantity, size_name

_OURS = BY_KEY["ours"]
_SHARED = BY_KEY["ours_shared"]
_ENGINE = BY_KEY["ours_engine"]
_SMALLEST = 8
# What the engine may take on one host, however fast the raw call is.
_ENGINE_US = 0.45
_ENGINE_RATIO = 1.5


@dataclass(frozen=True)
class Goal:
    """At each size from `first` and below `end`: at least `speed` times as fast as each peer."""

    case: str
    first: int
    end: int
    speed: float
    collectives: tuple[str, ...] = COLLECTIVES


GOALS = (
    Goal("node2", 0, 4 * KI, 1.1, ("allreduce",)),
    Goal("node2", 4 * KI, 1 << 62, 1.3, ("allreduce",)),
    Goal("node2", 0, 1 << 62, 1, ("reduce_scatter", "allgather", "alltoall", "broadcast")),
    Goal("node4", 0, 1 << 62, 1.3),
    Goal("hosts4", 0, 4 * MI, 1.15, ("allreduce",)),
    Goal("hosts4", 4 * MI, 1 << 62, 1, ("allreduce",)),
    Goal("hosts4", 0, 1 << 62, 1, ("reduce_scatter", "allgather", "alltoall", "broadcast")),
    Goal("hosts4x2", 0, 1 << 62, 1),
    Goal("hosts4x4", 0, 1 << 62, 1),
)


# On one host, from 4 MiB: the share of what the limit's copy moves.
_LIMIT_SHARES = {
    "allreduce": 0.9,
    "reduce_scatter": 0.7,
    "allgather": 0.7,
    "alltoall": 0.7,
    "broadcast": 0.7,
}
# How many times as fast as in ordinary memory a call is in mpib_alloc's, from a size on.
_SHARED_SPEEDS = ((0, 1.0), (64 * KI, 3.0))


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


def _limit_row(run: Run, case: Case, collective: str) -> str | None:
    found = {
        size: 1 / limit
        for size in run.sizes(case, collective)
        if size >= 4 * MI
        and (limit := ratios.to_limit(run, case, collective, size, _OURS)) is not None
    }
    if not found:
        return None
    goal = _LIMIT_SHARES[collective]
    worst = min(found, key=lambda size: found[size])
    verdict = "met" if found[worst] >= goal else "**missed**"
    return (
        f"| {case.title}, {collective} | {size_name(min(found))} to {size_name(max(found))}"
        f" | {goal:.0%} of {case.limit} | {found[worst]:.0%} at {size_name(worst)} | {verdict} |"
    )


def _shared_row(run: Run, case: Case, first: int, goal: float) -> str | None:
    found = {
        size: 1 / pair
        for size in run.sizes(case, "allreduce")
        if size >= first
        and (pair := ratios.ratio(run, case, "allreduce", size, (_SHARED.key, _OURS.key)))
    }
    if not found:
        return None
    worst = min(found, key=lambda size: found[size])
    verdict = "met" if found[worst] >= goal else "**missed**"
    return (
        f"| {case.title}, allreduce in memory of mpib_alloc | {size_name(min(found))} to"
        f" {size_name(max(found))} | {goal:g} × as fast as in ordinary memory"
        f" | {found[worst]:.2f} × at {size_name(worst)} | {verdict} |"
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
        if collective in goal.collectives and (row := _goal_row(run, goal, collective))
    ]
    if rows:
        text += (
            "| mpi_bridge's blocking call | | sizes | goal: as fast as any peer | reached at"
            " | worst | |\n|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
        )
    node = _case("node2")
    rows = [row for each in run.collectives(node) if (row := _limit_row(run, node, each))] + [
        row for goal in _SHARED_SPEEDS if (row := _shared_row(run, node, *goal))
    ]
    if rows:
        text += (
            "\n| mpi_bridge's blocking call | sizes | goal | worst | |\n|---|---|---|---|---|\n"
            + "\n".join(rows)
            + "\n"
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
