# SPDX-License-Identifier: GPL-2.0-or-later
"""Run on a cluster's login host by `run`: from submission to the first line of rank 0.

What is left out is the wait in Slurm's queue, from the end of the submission to the start of the
batch script: its scheduler looks about once a second, so that this wait is up to a second of
chance.

Arguments: the number of nodes and of rounds. Prints one JSON object a round, {"plain": seconds,
"horovod": seconds, "mpi": seconds}: `sbatch` of a script with `srun --mpi=pmix`, and `batchai job
create` with horovodSettings and with customMpiSettings, of the same command on the same hosts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Rank 0 prints the time at which it runs; when the slurmstepd of the batch script, which is on the
# same host, was started, in clock ticks after boot; and for comparison the seconds since boot and
# the time once more. The others print nothing.
BATCH_STEP = '/proc/$(pgrep -o -f "slurmstepd: .$SLURM_JOB_ID.batch")/stat'
COMMAND = (
    'if [ "$SLURM_PROCID" = 0 ]; then echo $(date +%s.%N)'
    f' $(cut -d " " -f 22 {BATCH_STEP}) $(cut -d " " -f 1 /proc/uptime) $(date +%s.%N); fi'
)
TICKS = os.sysconf("SC_CLK_TCK")
DEADLINE_SECONDS = 120.0


def since_batch_start(path: Path) -> float:
    """Return what the first line of the file says, which may not exist yet."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        if path.exists():
            text = path.read_text()
            if "\n" in text:
                printed, ticks, uptime, now = map(float, text.splitlines()[0].split())
                return printed - (now - uptime + ticks / TICKS)
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
    """Submit a script that runs srun; return the seconds of that and until rank 0 printed."""
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
    submitted = time.time()
    return submitted - begin + since_batch_start(output)


def horovod(directory: Path, nodes: int, number: int) -> float:
    """Submit a job of Horovod that runs the same command; return the same."""
    script = directory / "rank.sh"
    script.write_text(COMMAND + "\n")
    settings = {"pythonScriptFilePath": str(script), "pythonInterpreterPath": "/bin/bash"}
    return ours(directory, nodes, f"horovod-{number}", {"horovodSettings": settings})


def mpi(directory: Path, nodes: int, number: int) -> float:
    """Submit an MPI job that runs the same command; return the same."""
    return ours(directory, nodes, f"mpi-{number}", {"customMpiSettings": {"commandLine": COMMAND}})


def ours(directory: Path, nodes: int, name: str, toolkit: dict[str, object]) -> float:
    """Submit a job file with this toolkit; return the seconds of that and until rank 0 printed."""
    name = f"launch-{os.getpid()}-{name}"
    properties = {"nodeCount": nodes, "stdOutErrPathPrefix": str(directory), **toolkit}
    job = {"properties": properties}
    path = directory / "job.json"
    path.write_text(json.dumps(job))
    begin = time.time()
    created = subprocess.run(
        ["batchai", "job", "create", "--name", name, "--config-file", str(path)],
        check=True,
        capture_output=True,
        text=True,
    )
    submitted = time.time()
    segment = json.loads(created.stdout)["jobOutputDirectoryPathSegment"]
    output = directory / segment / "stdouterr" / "stdout.txt"
    return submitted - begin + since_batch_start(output)


def main() -> None:
    """Take turns, in one order and in the other."""
    nodes, rounds = int(sys.argv[1]), int(sys.argv[2])
    kinds = [("plain", plain), ("horovod", horovod), ("mpi", mpi)]
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
