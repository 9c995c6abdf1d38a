# SPDX-License-Identifier: GPL-2.0-or-later
"""A run as Markdown."""

from __future__ import annotations

from . import targets
from .blocks import Run
from .cases import Candidate, Case
from .words import quantity, size_name

_KIB = 1024


def _cell(run: Run, case: Case, candidate: Candidate, size: int) -> str:
    result = run.result(case, candidate, size)
    if result is None:
        return "–"
    text = quantity(result.microseconds)
    if size >= 4 * _KIB:
        text += f" ({case.bus_bandwidth(size, result.microseconds):.3g})"
    return text if result.in_regime else text + " \\*"


def _case_table(run: Run, case: Case) -> str:
    candidates = run.candidates(case)
    lines = [
        "| bytes | " + " | ".join(candidate.label for candidate in candidates) + " |",
        "|---" * (len(candidates) + 1) + "|",
    ]
    for size in run.sizes(case):
        cells = [_cell(run, case, candidate, size) for candidate in candidates]
        lines.append(f"| {size_name(size)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _failures(run: Run, case: Case) -> str:
    lines = {f"- {block.candidate}: {block.error}\n" for block in run.failures(case)}
    return "\nBlocks that failed:\n\n" + "".join(sorted(lines)) if lines else ""


def _circumstances(run: Run) -> str:
    low, high = run.regime()
    rounds = len({block.round for block in run.blocks})
    outside = sum(not run.in_regime(block) for block in run.blocks)
    text = (
        f"{run.sentence}\nRounds: {rounds}. A cache line took {low:.0f}–{high:.0f} ns from one core"
        " to the other, one way, before and after the blocks that count"
    )
    if outside:
        text += (
            f"; in {outside} of {len(run.blocks)} blocks the cores were at another distance. Rows"
            " marked \\* have only such blocks and do not compare with the others"
        )
    return text + ".\n"


def markdown(run: Run, images: str) -> str:
    """The section of a document; `images` is the path from it to the pictures."""
    parts = [_circumstances(run), targets.table(run)]
    for case in run.cases():
        parts += [
            f"### Allreduce: {case.title}\n",
            f"Time of one call, and bus bandwidth in GB/s.\n\n{_case_table(run, case)}"
            + _failures(run, case),
            f"![Latency and bus bandwidth, {case.title}]({images}/{picture(case)})\n",
        ]
    return "\n".join(part for part in parts if part)


def picture(case: Case) -> str:
    return f"allreduce-{case.key}.svg"
