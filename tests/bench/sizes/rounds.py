# SPDX-License-Identifier: GPL-2.0-or-later
"""Run as a user on the test cluster's login host by `run`: one case of a size that is given.

Arguments: the case, and its numbers. Prints one JSON object with seconds and MiB of memory. A job
or a command that does not end well ends this program.

    ranks NODES RANKS     a job with preparation and a container, and all collectives checked
    sweep POINTS          a sweep, from its file to the table of its points; no point runs
    queue JOBS            so many jobs that wait in the queue: what the commands take then
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

_IMAGE = Path(__file__).resolve().with_name("image.sqsh")
_BATCHAI = "batchai"
# How many commands at the beginning and at the end of many alike are looked at.
_FEW = 20
# Rank 0 says when it runs; the check prints a line if all is right.
_RANK = (
    r'[ "$SLURM_PROCID" != 0 ] || bash -c "echo \$EPOCHREALTIME"; exec env'
    " LD_LIBRARY_PATH=/opt/batchai/lib /usr/bin/check 1 4096"
)


class Ran(NamedTuple):
    output: str
    seconds: float
    mebibytes: float


def run(*words: str) -> Ran:
    """What the command printed, how long it took, and the most memory that it had."""
    with tempfile.TemporaryFile("w+") as output:
        begin = time.monotonic()
        process = subprocess.Popen(words, stdout=output, stdin=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"rounds: {' '.join(words)}: exit code {process.returncode}")
        output.seek(0)
        return Ran(output.read(), seconds, usage.ru_maxrss / 1024)


def job_file(directory: Path, **properties: object) -> str:
    path = directory / "job.json"
    path.write_text(
        json.dumps({"properties": {"stdOutErrPathPrefix": str(directory), **properties}})
    )
    return str(path)


def memory_of_batch_step(job_id: str) -> float:
    """MiB of the launcher and what it starts on the first node, as Slurm has sampled it."""
    words = (
        "sacct",
        "--noheader",
        "--parsable2",
        "--jobs",
        f"{job_id}.batch",
        "--format",
        "MaxRSS",
    )
    end = time.monotonic() + 60
    while time.monotonic() < end:
        text = run(*words).output.strip()
        if text.endswith("K"):
            return float(text[:-1]) / 1024
        time.sleep(0.5)
    sys.exit(f"rounds: Slurm does not say how much memory job {job_id} has used")


def ranks(directory: Path, nodes: int, count: int) -> dict[str, float]:
    file = job_file(
        directory,
        nodeCount=nodes,
        jobPreparation={"commandLine": "touch $AZ_BATCHAI_JOB_TEMP/prepared"},
        containerSettings={"imageSourceRegistry": {"image": str(_IMAGE)}},
        customMpiSettings={"commandLine": _RANK, "processCount": count},
    )
    begin = time.time()
    created = run(_BATCHAI, "job", "create", "--name", f"ranks-{count}", "-f", file)
    run(_BATCHAI, "job", "wait", "--name", f"ranks-{count}")
    ended = time.time()
    job = json.loads(created.output)
    shown = json.loads(run(_BATCHAI, "job", "show", "--name", f"ranks-{count}").output)
    output = directory / job["jobOutputDirectoryPathSegment"] / "stdouterr"
    said = (output / "stdout.txt").read_text().split("\n")
    if len(said) < 2 or f" {count} ranks" not in said[1]:
        sys.exit(f"rounds: rank 0 of {count} said {said}")
    return {
        "nodes": nodes,
        "ranks": count,
        "submit": created.seconds,
        "first_line": float(said[0]) - begin,
        "all": ended - begin,
        "launcher_mebibytes": memory_of_batch_step(shown["slurmJobId"]),
    }


def sweep(directory: Path, points: int) -> dict[str, float]:
    """The points never run: they are held."""
    file = job_file(
        directory,
        nodeCount=1,
        customToolkitSettings={"commandLine": "true"},
        sweep={"parameters": {"seed": f"1-{points}"}},
    )
    # A job that is held has no reason to be looked at by the scheduler.
    created = run(_BATCHAI, "job", "create", "--name", "swept", "-f", file, "--", "--hold")
    shown = run(_BATCHAI, "sweep", "show", "--name", "swept", "--output", "json")
    if len(json.loads(shown.output)) != points:
        sys.exit(f"rounds: there are not {points} points")
    listed = run(_BATCHAI, "sweep", "list", "--output", "json")
    stopped = run(_BATCHAI, "sweep", "stop", "--name", "swept", "--yes")
    answers = {"submit": created, "show": shown, "list": listed, "stop": stopped}
    return {"points": points} | {
        f"{name}_{what}": value
        for name, ran in answers.items()
        for what, value in (("seconds", ran.seconds), ("mebibytes", ran.mebibytes))
    }


def queue(directory: Path, jobs: int) -> dict[str, float]:
    file = job_file(directory, nodeCount=1, customToolkitSettings={"commandLine": "true"})
    names = [f"queued-{number}" for number in range(jobs)]
    took = [
        run(_BATCHAI, "job", "create", "--name", name, "-f", file, "--", "--hold").seconds
        for name in names
    ]
    listed = run(_BATCHAI, "job", "list", "--output", "json")
    if len([job for job in json.loads(listed.output) if job["name"].startswith("queued-")]) != jobs:
        sys.exit(f"rounds: not all of {jobs} jobs are listed")
    shown = run(_BATCHAI, "job", "show", "--name", names[-1])
    run("scancel", "--user", str(os.getuid()))
    return {
        "jobs": jobs,
        "submit_first": statistics.median(took[:_FEW]),
        "submit_last": statistics.median(took[-_FEW:]),
        "list_seconds": listed.seconds,
        "list_mebibytes": listed.mebibytes,
        "show_seconds": shown.seconds,
        "show_mebibytes": shown.mebibytes,
    }


def main() -> None:
    case, numbers = sys.argv[1], [int(word) for word in sys.argv[2:]]
    cases = {"ranks": ranks, "sweep": sweep, "queue": queue}
    with tempfile.TemporaryDirectory(dir=Path.home(), prefix="sizes.") as name:
        print(json.dumps(cases[case](Path(name), *numbers)))


if __name__ == "__main__":
    main()
