# SPDX-License-Identifier: GPL-2.0-or-later
"""Run on a cluster's login host by `run`: from submission to the first line of rank 0.

Arguments: the number of nodes and of rounds. Prints one JSON object a round, {"plain": seconds,
"ours": seconds}: `sbatch` of a script with `srun --mpi=pmix`, and `batchai job create`, of the same
command on the same hosts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Rank 0 prints the time at which it runs; the others print nothing.
COMMAND = 'if [ "$SLURM_PROCID" = 0 ]; then date +%s.%N; fi'
DEADLINE_SECONDS = 120.0


def wait_for_line(path: Path) -> float:
    """Return the time stamp in the first line of the file, which may not exist yet."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        if path.exists():
            lines = path.read_text().splitlines()
            if lines:
                return float(lines[0])
        time.sleep(0.02)
    sys.exit(f"rounds: {path}: no output within {DEADLINE_SECONDS:.0f} s; see squeue")


def wait_until_idle() -> None:
    """Wait until none of our jobs is left, so that the next one finds the nodes free."""
    user = str(os.getuid())
    query = ["squeue", "--noheader", "--user", user, "--format", "%i"]
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        if not subprocess.run(query, check=True, capture_output=True, text=True).stdout.strip():
            return
        time.sleep(0.1)
    sys.exit("rounds: our jobs do not end; see squeue")


def plain(directory: Path, nodes: int, number: int) -> float:
    """Submit a script that runs srun; return the seconds until rank 0 printed."""
    script = directory / "plain.sh"
    output = directory / f"plain-{number}.txt"
    script.write_text(
        f"#!/bin/bash\nsrun --mpi=pmix --kill-on-bad-exit=1 --output={output} bash -c '{COMMAND}'\n"
    )
    begin = time.time()
    subprocess.run(
        [
            "sbatch",
            "--parsable",
            f"--nodes={nodes}",
            f"--ntasks={nodes}",
            "--exclusive",
            "--ntasks-per-node=1",
            f"--output={directory}/plain.log",
            str(script),
        ],
        check=True,
        capture_output=True,
    )
    return wait_for_line(output) - begin


def ours(directory: Path, nodes: int, number: int) -> float:
    """Submit a job file that runs the same command; return the seconds until rank 0 printed."""
    name = f"launch-{os.getpid()}-{number}"
    job = {
        "properties": {
            "nodeCount": nodes,
            "customMpiSettings": {"commandLine": COMMAND},
            "stdOutErrPathPrefix": str(directory),
        }
    }
    path = directory / "job.json"
    path.write_text(json.dumps(job))
    begin = time.time()
    created = subprocess.run(
        ["batchai", "job", "create", "--name", name, "--config-file", str(path)],
        check=True,
        capture_output=True,
        text=True,
    )
    segment = json.loads(created.stdout)["jobOutputDirectoryPathSegment"]
    return wait_for_line(directory / segment / "stdouterr" / "stdout.txt") - begin


def main() -> None:
    """Take turns, each kind as often the first as the second."""
    nodes, rounds = int(sys.argv[1]), int(sys.argv[2])
    kinds = [("plain", plain), ("ours", ours)]
    with tempfile.TemporaryDirectory(dir=Path.home(), prefix="launch.") as name:
        directory = Path(name)
        # Round 0 warms the caches.
        for number in range(rounds + 1):
            row = {}
            for kind, measure in kinds:
                wait_until_idle()
                row[kind] = measure(directory, nodes, number)
            if number:
                print(json.dumps(row), flush=True)
            kinds.reverse()
        wait_until_idle()


if __name__ == "__main__":
    main()
