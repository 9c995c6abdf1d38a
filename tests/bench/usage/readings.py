# SPDX-License-Identifier: GPL-2.0-or-later
"""Run on a host of the cluster by `run`: what its batchai-usage takes in a while.

Arguments: the number of ranks, and the seconds. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

_PATIENCE = 120


def _samplers() -> list[Path]:
    found = []
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            if (directory / "comm").read_text().strip() == "batchai-usage":
                found.append(directory)
        except OSError:
            continue
    return found


def _ticks(process: Path) -> int:
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _runtime_ns(process: Path) -> int:
    """What the scheduler has counted, which is more exact than ticks of 10 ms."""
    try:
        return int((process / "schedstat").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _ticks(process) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def _resident_mib(process: Path) -> float:
    pages = int((process / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / (1 << 20)


def _record(ranks: int) -> Path | None:
    """The newest record whose last sample has all ranks."""
    home = Path("~/.batchai").expanduser()
    files = sorted(home.glob("**/attempts/*.usage-*.txt"), key=lambda file: file.stat().st_mtime)
    for file in reversed(files):
        lines = file.read_text().splitlines()
        if lines and lines[-1].count(":") >= 2 * ranks:
            return file
    return None


def main() -> None:
    ranks, seconds = int(sys.argv[1]), int(sys.argv[2])
    deadline = time.monotonic() + _PATIENCE
    while (record := _record(ranks)) is None or len(_samplers()) != 1:
        if time.monotonic() > deadline:
            sys.exit("readings: there is no sampler with a record of all ranks")
        time.sleep(0.5)
    live = record.with_suffix(".live")
    process = _samplers()[0]
    if sys.argv[3:] == ["live"]:
        while not live.exists() or live.stat().st_size == 0:
            time.sleep(0.5)
    before = _runtime_ns(process)
    begun = len(record.read_text().splitlines())
    live_before = len(live.read_text().splitlines()) if live.exists() else 0
    time.sleep(seconds)
    used = _runtime_ns(process) - before
    lines = record.read_text().splitlines()
    of_live = live.read_text().splitlines() if live.exists() else []
    print(
        json.dumps(
            {
                "cpu_ms": used / 1e6,
                "samples": len(lines) - begun + max(0, len(of_live) - live_before),
                "bytes": len(lines[-1]) + 1,
                "resident_mib": _resident_mib(process),
                "processes": sum(entry.name.isdigit() for entry in Path("/proc").iterdir()),
            }
        )
    )


if __name__ == "__main__":
    main()
