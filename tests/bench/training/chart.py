# SPDX-License-Identifier: GPL-2.0-or-later
"""The chart of the benchmark of training."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot  # noqa: E402

from .blocks import LABELS, Block, rows  # noqa: E402

_COLOURS = {
    "horovod_ours": "#0b6e4f",
    "ddp_ours": "#6bbf59",
    "ddp_gloo": "#b0413e",
    "horovod_real": "#e2a33a",
    "keras_ours": "#1f5fa8",
    "tf_multiworker": "#a9b7c6",
}


def draw(blocks: list[Block], path: Path) -> None:
    """Writes the picture; the path's ending chooses its format."""
    models = list(dict.fromkeys(block.model for block in blocks))
    figure, axes = pyplot.subplots(1, len(models), figsize=(4.5 * len(models), 4.2), squeeze=False)
    for axis, model in zip(axes[0], models):
        lines = rows(blocks, model)
        counts = sorted({row[0] for row in lines})
        present = [key for key in LABELS if any(row[1] == key for row in lines)]
        width = 0.8 / len(present)
        first = (1 - len(present)) / 2 * width
        for place, candidate in enumerate(present):
            beyond = {row[0]: row[3] - row[4] for row in lines if row[1] == candidate}
            axis.bar(
                [counts.index(ranks) + first + place * width for ranks in beyond],
                beyond.values(),
                width=0.9 * width,
                color=_COLOURS[candidate],
                label=LABELS[candidate],
            )
        axis.set_xticks(range(len(counts)), [str(count) for count in counts])
        axis.set_title(f"{model} model")
        axis.set_xlabel("ranks")
        axis.set_ylabel("ms of a step beyond its computation")
    # Below the plots, where no bar is.
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=3, frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    figure.savefig(path)
    pyplot.close(figure)
