# SPDX-License-Identifier: GPL-2.0-or-later
"""The kinds of jobs of a soak: what each of them submits, and how it ends if no fault hits it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LOGS = "/shared/soak/logs"
FILES = "/shared/soak/jobs"
IMAGE = "/shared/soak/image.sqsh"
SHARE = "/shared/soak/share"

Properties = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One job. `command` is given on the login host, where {file} is the path of the job file."""

    name: str
    kind: str
    file: str
    command: tuple[str, ...]
    # Whether `batchai job list` must know the job afterwards.
    recorded: bool
    # Batch AI's word for the state at the end. What is ended on purpose has failed.
    ends: str = "succeeded"
    # Given so many seconds after the submission.
    then: tuple[str, ...] = ()
    delay: float = 0.0
    nodes: int = 1


def _document(nodes: int, more: Properties) -> str:
    properties = {"nodeCount": nodes, "stdOutErrPathPrefix": LOGS, **more}
    return json.dumps({"properties": properties})


def _shell(text: str) -> str:
    return f"sh -c '{text}'"


def _sleep(dice: random.Random) -> str:
    return f"sleep {dice.uniform(0.2, 6):.1f}"


def _created(name: str, kind: str, nodes: int, more: Properties, **other: Any) -> Job:
    command = ("batchai", "job", "create", "--name", name, "--config-file", "{file}")
    command += ("--output", "none")
    return Job(name, kind, _document(nodes, more), command, True, nodes=nodes, **other)


def _toolkit(name: str, dice: random.Random) -> Job:
    return _created(name, "toolkit", 1, {"customToolkitSettings": {"commandLine": _sleep(dice)}})


def _ranks(name: str, dice: random.Random) -> Job:
    nodes = dice.randint(1, 4)
    mpi = {"commandLine": _shell(f"{_sleep(dice)}; echo $RANK"), "processCount": nodes * 2}
    # Jobs of one of these partitions give way to those of higher priority.
    partition = dice.choice(["main", "requeued"])
    more = {"customMpiSettings": mpi, "slurm": {"partition": partition}}
    return _created(name, "ranks", nodes, more)


def _prepared(name: str, dice: random.Random) -> Job:
    more = {
        "jobPreparation": {"commandLine": _shell("echo prepared > $AZ_BATCHAI_JOB_TEMP/here")},
        "customMpiSettings": {
            "commandLine": _shell(f"cat $AZ_BATCHAI_JOB_TEMP/here; {_sleep(dice)}")
        },
    }
    return _created(name, "prepared", 2, more)


def _mounted(name: str, dice: random.Random) -> Job:
    volume = {"mountCommand": "soak", "relativeMountPath": "share"}
    more = {
        "mountVolumes": {"unmanagedFileSystems": [volume]},
        "customToolkitSettings": {
            "commandLine": _shell(f"ls $AZ_BATCHAI_JOB_MOUNT_ROOT/share; {_sleep(dice)}")
        },
    }
    return _created(name, "mounted", 1, more)


def _container(name: str, dice: random.Random) -> Job:
    nodes = dice.randint(1, 2)
    more = {
        "containerSettings": {"imageSourceRegistry": {"image": IMAGE}},
        "customMpiSettings": {"commandLine": _shell(f"cat /etc/made-for; {_sleep(dice)}")},
    }
    return _created(name, "container", nodes, more)


def _array(name: str, dice: random.Random) -> Job:
    more = {
        "slurm": {"array": "1-3"},
        "customToolkitSettings": {"commandLine": _sleep(dice)},
    }
    return _created(name, "array", 1, more)


def _failing(name: str, dice: random.Random) -> Job:
    mpi = {"commandLine": _shell(f"{_sleep(dice)}; [ $RANK != 1 ] || exit 3"), "processCount": 4}
    return _created(name, "failing", 2, {"customMpiSettings": mpi}, ends="failed")


def _allreduce(name: str, dice: random.Random) -> Job:
    program = "import mpi_bridge as m; m.init(); m.barrier(); print(m.rank())"
    more = {
        "customMpiSettings": {"commandLine": f'python3 -c "{program}"', "processCount": 4},
    }
    return _created(name, "allreduce", 2, more)


def _retried(name: str, dice: random.Random) -> Job:
    first = "[ ${SLURM_RESTART_COUNT:-0} -gt 0 ] || exit 7"
    more = {
        "retry": {"on": ["7"], "max": 2},
        "customMpiSettings": {"commandLine": _shell(f"{_sleep(dice)}; {first}")},
    }
    return _created(name, "retried", 1, more)


def _terminated(name: str, dice: random.Random) -> Job:
    then = ("batchai", "job", "terminate", "--name", name, "--yes")
    mpi = {"commandLine": "sleep 300"}
    return _created(
        name,
        "terminated",
        2,
        {"customMpiSettings": mpi},
        ends="failed",
        then=then,
        delay=dice.uniform(0, 8),
    )


def _batch(name: str, dice: random.Random) -> Job:
    file = _document(2, {"customMpiSettings": {"commandLine": "true"}})
    script = f"srun {_shell(_sleep(dice))}"
    command = ("sbatch", "--quiet", "--output=/dev/null", f"--job-name={name}")
    command += ("--job-json={file}", f"--wrap={script}")
    return Job(name, "batch", file, command, False, nodes=2)


def _step(name: str, dice: random.Random) -> Job:
    file = _document(1, {"customMpiSettings": {"commandLine": "true"}})
    command = ("srun", "--quiet", f"--job-name={name}", "--job-json={file}", "sh", "-c")
    return Job(name, "step", file, (*command, _sleep(dice)), False)


_KINDS: tuple[tuple[int, Callable[[str, random.Random], Job]], ...] = (
    (3, _toolkit),
    (4, _ranks),
    (2, _prepared),
    (2, _mounted),
    (4, _container),
    (1, _array),
    (2, _failing),
    (3, _allreduce),
    (2, _retried),
    (2, _terminated),
    (2, _batch),
    (2, _step),
)


def chosen(number: int, dice: random.Random) -> Job:
    """The job with this number in the soak."""
    kinds = [kind for _, kind in _KINDS]
    weights = [weight for weight, _ in _KINDS]
    [kind] = dice.choices(kinds, weights)
    return kind(f"soak-{number}", dice)


def last(nodes: int) -> Job:
    """A job on all nodes."""
    mpi = {"commandLine": "true", "processCount": nodes}
    return _created("soak-last", "last", nodes, {"customMpiSettings": mpi})
