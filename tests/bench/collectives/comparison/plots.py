# SPDX-License-Identifier: GPL-2.0-or-later
"""A case as a picture: latency and bus bandwidth against the size of the vector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: E402

from . import ratios  # noqa: E402
from .cases import Case  # noqa: E402
from .results import Run  # noqa: E402
from .words import size_name  # noqa: E402

# Okabe and Ito's colours, told apart with any colour vision; shapes tell the lines apart too, and
# dashes those that share a colour. What has none is in the tables only: mpib_call's line would lie
# on the engine's.
_STYLES = {
    "ours": ("#D55E00", "o"),
    "ours_shared": ("#E69F00", "s"),
    "ours_engine": ("#CC79A7", "D"),
    "open_mpi": ("#0072B2", "^"),
    "open_mpi5": ("#0072B2", "v"),
    "open_mpi5_ucx": ("#56B4E9", "v"),
    "mpich": ("#009E73", "P"),
    "mpich5": ("#009E73", "X"),
    "intel_mpi": ("#000000", "<"),
    "one_ccl": ("#000000", ">"),
    "gloo_ring": ("#7F7F7F", "*"),
    "limit": ("#7F7F7F", ""),
}
_DASHED = ("open_mpi5", "mpich5", "one_ccl", "limit")
# Below, latency is all that there is to see.
_LEAST_FOR_BANDWIDTH = 4096
_SETTINGS = {
    "font.size": 10,
    "font.family": "sans-serif",
    "svg.fonttype": "none",
    "svg.hashsalt": "batchai",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def _time(microseconds: float, _: int) -> str:
    if microseconds >= 1_000_000:
        return f"{microseconds / 1_000_000:g} s"
    if microseconds >= 1000:
        return f"{microseconds / 1000:g} ms"
    return f"{microseconds:g} µs"


def _draw_lines(run: Run, case: Case, latency: Any, bandwidth: Any) -> None:
    for candidate in run.candidates(case, "allreduce"):
        if candidate.key not in _STYLES:
            continue
        color, marker = _STYLES[candidate.key]
        sizes, times = [], []
        for size in run.sizes(case, "allreduce"):
            microseconds = ratios.time(run, case, "allreduce", size, candidate.key)
            if microseconds is not None:
                sizes.append(size)
                times.append(microseconds)
        style = {
            "color": color,
            "marker": marker,
            "markersize": 6 if candidate.ours else 5,
            "linestyle": "--" if candidate.key in _DASHED else "-",
            "linewidth": 2.4 if candidate.ours else 1.2,
            "zorder": 3 if candidate.ours else 2,
            "label": candidate.label,
        }
        latency.plot(sizes, times, **style)
        large = [pair for pair in zip(sizes, times) if pair[0] >= _LEAST_FOR_BANDWIDTH]
        busy = [case.bus_bandwidth("allreduce", *pair) for pair in large]
        bandwidth.plot([size for size, _ in large], busy, **style)


def _label_axes(axes: Any, sizes: list[int], title: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: size_name(int(size))))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", labelrotation=45)
    axes.yaxis.set_major_locator(LogLocator(base=10))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(True, which="major", color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel("size of the vector")


def draw(run: Run, case: Case, path: Path) -> None:
    """Writes the picture; the path's ending chooses its format."""
    with plt.rc_context(_SETTINGS):
        figure, (latency, bandwidth) = plt.subplots(1, 2, figsize=(11, 5.2), layout="constrained")
        _draw_lines(run, case, latency, bandwidth)
        _label_axes(
            latency, run.sizes(case, "allreduce"), "Time of one allreduce (lower is better)"
        )
        large = [size for size in run.sizes(case, "allreduce") if size >= _LEAST_FOR_BANDWIDTH]
        _label_axes(bandwidth, large, "Bus bandwidth, GB/s (higher is better)")
        latency.yaxis.set_major_formatter(FuncFormatter(_time))
        bandwidth.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        figure.suptitle(f"Sum of 32-bit floats in place: {case.title}", fontsize=12)
        handles, labels = latency.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        # A date in the file would make it differ at each run.
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, dpi=110, metadata=metadata)
        plt.close(figure)
