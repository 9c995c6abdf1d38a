# SPDX-License-Identifier: GPL-2.0-or-later
"""A run as Markdown."""

from __future__ import annotations

from collections.abc import Callable

from . import ratios, targets
from .candidates import BY_KEY, LIMIT, Candidate
from .cases import KI, Case
from .results import Run
from .words import quantity, size_name

# As document.chart and document.picture are.
Shown = Callable[[str, str], str]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def _ratio_cell(run: Run, case: Case, collective: str, size: int, candidate: Candidate) -> str:
    peer = ratios.to_best_peer(run, case, collective, size, candidate)
    limit = ratios.to_limit(run, case, collective, size, candidate)
    beside = f"{peer.value:.2f} ({BY_KEY[peer.other].label})" if peer else "–"
    return beside + (f", {limit:.2f}" if limit else ", –")


def _ratio_table(run: Run, case: Case, candidate: Candidate) -> str:
    """One row a size, one column a collective."""
    collectives = [each for each in run.collectives(case) if candidate.takes_part(case, each)]
    sizes = sorted({size for each in collectives for size in run.sizes(case, each)})
    rows = [
        [size_name(size)]
        + [_ratio_cell(run, case, collective, size, candidate) for collective in collectives]
        for size in sizes
    ]
    return _table(["bytes", *collectives], rows)


def _time_cell(run: Run, case: Case, collective: str, size: int, candidate: Candidate) -> str:
    microseconds = ratios.time(run, case, collective, size, candidate.key)
    if microseconds is None:
        return "–"
    bandwidth = case.bus_bandwidth(collective, size, microseconds)
    return quantity(microseconds) + (f" ({bandwidth:.3g})" if size >= 4 * KI else "")


def _times(run: Run, case: Case, collective: str) -> str:
    candidates = [each for each in run.candidates(case, collective) if not each.algorithm]
    rows = [
        [size_name(size)]
        + [_time_cell(run, case, collective, size, candidate) for candidate in candidates]
        for size in run.sizes(case, collective)
    ]
    table = _table(["bytes", *(candidate.label for candidate in candidates)], rows)
    return f"Time of one {collective}, and bus bandwidth in GB/s.\n\n{table}"


def regret_table(run: Run) -> str:
    """What the cost model's choice of an algorithm of allreduce costs."""
    parts = []
    for case in run.cases():
        found = ratios.regrets(run, case)
        if not found:
            continue
        names = list(dict.fromkeys(name for each in found for name in each.algorithms_us))
        rows = [
            [size_name(each.size), quantity(each.chosen_us)]
            + [
                quantity(each.algorithms_us[name]) if name in each.algorithms_us else "–"
                for name in names
            ]
            + [each.best, f"{each.value:.2f}", f"{each.rounds[0]:.2f} to {each.rounds[1]:.2f}"]
            + ["met" if each.met else "**missed**"]
            for each in found
        ]
        head = ["bytes", "by the model", *names, "best", "regret", "of the rounds"]
        head.append(f"≤ {ratios.MOST_REGRET}")
        parts.append(f"### Regret of the model: {case.title}\n\n{_table(head, rows)}")
    return "\n".join(parts)


def _circumstances(run: Run) -> str:
    low, high = run.regime()
    rounds = len({turn.round for turn in run.turns})
    outside = sum(not all(low <= each <= high for each in turn.pingpong_ns) for turn in run.turns)
    text = (
        f"{run.sentence}\nRounds: {rounds}. A cache line took {low:.0f}–{high:.0f} ns from one core"
        " to the other, one way, before and after the turns whose times count"
    )
    if outside:
        text += f"; in {outside} of {len(run.turns)} turns the cores were at another distance"
    libraries = dict.fromkeys(each.library for each in run.joined if each.candidate != LIMIT)
    text += f". Measured: {', '.join(libraries)}.\n"
    if run.missing:
        text += "\nNot measured, as they could not be run:\n\n"
        text += "".join(f"- {BY_KEY[key].label}: {why}\n" for key, why in run.missing.items())
    return text + "".join(f"\n{remark}\n" for remark in run.remarks)


def _case(run: Run, case: Case, shown: Shown) -> str:
    text = (
        f"### Collectives: {case.title}\n\nTime of mpi_bridge's blocking call, in ordinary memory,"
        f" over the best peer's, and over the limit, {case.limit}:\n\n"
        + _ratio_table(run, case, BY_KEY["ours"])
    )
    failures = list(run.failures(case))
    if failures:
        text += "\nFailed:\n\n" + "".join(f"- {line}\n" for line in failures)
    for collective in run.collectives(case):
        text += f"\n#### {case.title}: {collective}\n\n{_times(run, case, collective)}"
        if collective == "allreduce":
            title = f"Latency and bus bandwidth, {case.title}"
            text += f"\n{shown(picture(case), title)}\n"
    return text


def markdown(run: Run, shown: Shown) -> str:
    """The section of a document; `shown` says how it shows a picture, by name and title."""
    parts = [_circumstances(run), targets.table(run), regret_table(run)]
    parts += [_case(run, case, shown) for case in run.cases()]
    return "\n".join(part for part in parts if part)


def picture(case: Case) -> str:
    return f"allreduce-{case.key}.svg"
