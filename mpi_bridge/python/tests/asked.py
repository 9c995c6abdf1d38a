# SPDX-License-Identifier: Apache-2.0
"""Asks a process with batchai_torch_calls.py for its collectives, as `batchai job stacks` does."""

import contextlib
import json
import os
import time
from pathlib import Path

HOOK = Path(__file__).parents[1] / "mpi_bridge" / "hook"
NAME = "batchai-torch"


def files_of(pid):
    """Return the paths of its files in memory of that name."""
    return [link for link, target in _links_of(pid) if target.startswith(f"/memfd:{NAME} ")]


def _links_of(pid):
    """Return the open files of the process with where they lead, but for those closed meanwhile."""
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append((link, str(link.readlink())))
    return found


def ask(pid, number=7):
    """Return what the process tells."""
    for path in files_of(pid):
        head = path.read_text().split("\n")[0]
        name, version, owner, file, inode = head.split()
        if int(owner) == pid:
            break
    else:
        raise AssertionError(f"process {pid} cannot be asked")
    assert (name, version, file) == (NAME, "1", path.name)
    pipe = next(link for link, target in _links_of(pid) if target == f"pipe:[{inode}]")
    with pipe.open("w") as questions:
        questions.write(f"{number}\n")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        answer = path.read_text()[len(head) + 1 :]
        first, _, text = answer.partition("\n")
        if first.split()[:1] == [str(number)] and len(text) == int(first.split()[1]):
            return json.loads(text)
        time.sleep(0.01)
    raise AssertionError(f"process {pid} does not answer: {answer!r}")


def thread_of(pid):
    """Return the status of the thread that answers."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == NAME:
            lines = (task / "status").read_text().splitlines()
            return dict(line.split(":\t") for line in lines if ":\t" in line)
    return None


def environment(**more):
    """Return that of a rank, with the hook."""
    base = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**base, "PYTHONPATH": str(HOOK), "SLURM_JOB_ID": "7", "OMP_NUM_THREADS": "1", **more}
