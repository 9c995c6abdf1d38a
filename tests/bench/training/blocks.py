# SPDX-License-Identifier: GPL-2.0-or-later
"""What the benchmark of training has measured, and its table."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

BATCH = 32
LABELS = {
    "horovod_ours": "horovod.torch of mpi_bridge",
    "ddp_ours": "DDP on mpi_bridge",
    "ddp_gloo": "DDP on Gloo",
    "horovod_real": "Horovod 0.28 on Open MPI",
    "keras_ours": "horovod.tensorflow of mpi_bridge",
    "tf_multiworker": "TensorFlow's MultiWorkerMirrored",
}


@dataclass(frozen=True)
class Block:
    """What one launch has measured of one model: medians of some steps, as rank 0 saw them."""

    candidate: str
    ranks: int
    round: int
    model: str
    megabytes: float
    compute_ms: float
    step_ms: float
    steps: int

    @classmethod
    def of_launch(cls, candidate: str, ranks: int, number: int, found: dict) -> Block:
        """`found` is what train.py prints of a model: each step's time, in seconds."""
        return cls(
            candidate=candidate,
            ranks=ranks,
            round=number,
            model=found["model"],
            megabytes=round(found["megabytes"], 3),
            compute_ms=round(1000 * statistics.median(found["compute"]), 4),
            step_ms=round(1000 * statistics.median(found["steps"]), 4),
            steps=len(found["steps"]),
        )


def of_results(results: dict) -> list[Block]:
    """The blocks of results.json."""
    return [Block(**each) for each in results["blocks"]]


def _median(blocks: list[Block], value: str) -> float:
    return statistics.median(getattr(block, value) for block in blocks)


def rows(blocks: list[Block], model: str) -> list[tuple[int, str, float, float, float]]:
    """Ranks, candidate, images a second, step and computation in ms; medians over the rounds."""
    found = []
    for ranks in sorted({block.ranks for block in blocks}):
        for candidate in LABELS:
            same = [
                block
                for block in blocks
                if (block.ranks, block.candidate, block.model) == (ranks, candidate, model)
            ]
            if same:
                step, compute = _median(same, "step_ms"), _median(same, "compute_ms")
                found.append((ranks, candidate, 1000 * BATCH * ranks / step, step, compute))
    return found


def table(blocks: list[Block], model: str) -> str:
    lines = [
        "| Ranks | Library | Images/s | Step ms | Computation alone ms | Not hidden ms |",
        "|---|---|---|---|---|---|",
    ]
    for ranks, candidate, images, step, compute in rows(blocks, model):
        lines.append(
            f"| {ranks} | {LABELS[candidate]} | {images:.4g} | {step:.4g} | {compute:.4g}"
            f" | {step - compute:.3g} |"
        )
    return "\n".join(lines)
