# SPDX-License-Identifier: GPL-2.0-or-later
"""What jobs may not leave behind on a host, and what the records must say of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))

from harness.cluster import Answer, BenchError, Command, TestCluster  # noqa: E402

_SECONDS = 120
# One line for each thing that a job may have left. /tmp/batchai-<user id> itself stays.
_LOOK = r"""
ps -u alice -o pid=,args= | sed 's/^/process /'
cut -d' ' -f2 /proc/mounts | sort | sed 's/^/mount /'
find /tmp -mindepth 2 -path '/tmp/batchai-*' | sed 's/^/file /'
find /dev/shm -user alice | sed 's/^/file /'
find /run/batchai -type f 2> /dev/null | sed 's/^/note /'
"""


def on(cluster: TestCluster, host: str) -> set[str]:
    """What is on a host: processes of the user, mounts, files of jobs, and notes of jobs."""
    answer = cluster.run(Command(("bash", "-c", _LOOK), host=host), _SECONDS, "root")
    if answer.code != 0:
        raise BenchError(f"{host} cannot be looked at: {answer.complaint()}")
    return set(answer.output.splitlines())


def drained(cluster: TestCluster) -> list[str]:
    """The nodes that take no jobs, with Slurm's word for their state."""
    words = ("sinfo", "--noheader", "--Node", "--partition=main", "--format=%N %t %E")
    answer = cluster.run(Command(words), _SECONDS)
    if answer.code != 0:
        raise BenchError(f"sinfo: {answer.complaint()}")
    return [line for line in answer.output.splitlines() if line.split()[1] != "idle"]


LIST = ("batchai", "job", "list", "--output", "json")


def states(answer: Answer) -> dict[str, str]:
    """The state of each recorded job, in Batch AI's words, from what LIST has answered."""
    if answer.code != 0:
        raise BenchError(f"{' '.join(LIST)}: {answer.complaint()}")
    return {job["name"]: job["executionState"] for job in json.loads(answer.output)}
