# SPDX-License-Identifier: GPL-2.0-or-later
"""Run on a cluster's login host by `run`: what `job logs` takes, and `cat` of the same files.

Arguments: the name of the job, the directory below which its logs are, how many bytes its ranks
have printed, and the number of rounds. Prints one JSON object a round, with times in seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_CHUNK = 1 << 20


def _to_pipe(words: list[str]) -> tuple[float, int]:
    """The time until a reader has everything, and how much that was."""
    begin = time.monotonic()
    with subprocess.Popen(words, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        count = 0
        buffer = bytearray(_CHUNK)
        while got := os.readv(child.stdout.fileno(), [buffer]):
            count += got
    return time.monotonic() - begin, _checked(words, child.returncode, count)


def _to_file(words: list[str], directory: str) -> tuple[float, int]:
    # What others have written must not be written to the disk meanwhile.
    os.sync()
    with tempfile.TemporaryFile(dir=directory) as file:
        begin = time.monotonic()
        code = subprocess.run(words, stdout=file, check=False).returncode
        took = time.monotonic() - begin
        return took, _checked(words, code, os.fstat(file.fileno()).st_size)


def _checked(words: list[str], code: int, count: int) -> int:
    if code != 0:
        sys.exit(f"rounds: {' '.join(words[:4])}: exit code {code}")
    return count


def _peak_kib(words: list[str]) -> int:
    """The most memory that the command has used."""
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    _checked(words, child.returncode, 0)
    return usage.ru_maxrss


def main() -> None:
    name, logs, size, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    files = sorted(str(path) for path in logs.glob("**/ranks/1/std*-*.txt"))
    ours = ["batchai", "job", "logs", name, "--merge"]
    commands = {"ours": ours, "cat": ["cat", *files]}
    tail = [*ours, "--tail", "100"]
    for number in range(rounds + 1):
        row: dict[str, float] = {}
        for key in ("ours", "cat") if number % 2 else ("cat", "ours"):
            for kind in ("pipe", "file"):
                words = commands[key]
                took, count = _to_pipe(words) if kind == "pipe" else _to_file(words, str(logs))
                # An answer that leaves bytes out is worth nothing.
                if count < size:
                    sys.exit(f"rounds: {key} prints {count} bytes of {size}")
                row[f"{key}_{kind}"] = took
        row["tail"] = _to_pipe(tail)[0]
        row["peak_kib"] = _peak_kib(ours)
        # Round 0 warms the caches.
        if number:
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
