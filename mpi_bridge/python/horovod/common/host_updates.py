# SPDX-License-Identifier: Apache-2.0
"""How `batchai run` tells the ranks of an elastic job that its hosts are to change.

The hosts of a Slurm step never change. So the ranks end together at a commit, and the launcher
starts them again on the new hosts. Both sides write a file in BATCHAI_ELASTIC_DIRECTORY, replaced
atomically: the launcher's `hosts.json` says which start of the ranks is to end, and rank 0's
`left.json` says that this start has ended after its commit. BATCHAI_ELASTIC_START names the start,
so a file that an earlier start has left means nothing to this one. Without that variable, nothing
is read and no message is sent.
"""

from __future__ import annotations

import enum
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from mpi_bridge import world

from . import agreement, atomic_file

DIRECTORY_VARIABLE = "BATCHAI_ELASTIC_DIRECTORY"
START_VARIABLE = "BATCHAI_ELASTIC_START"
# The exit code of ranks that end because the hosts are to change (EX_TEMPFAIL of sysexits.h).
EXIT_CODE = 75

_UPDATE_SCHEMA = "batchai-hosts-update/v1"
_LEFT_SCHEMA = "batchai-ranks-left/v1"
_SECONDS_BETWEEN_LOOKS = 1.0
# A thread that the script does not end must not keep the step, and with it the job, for ever.
_SECONDS_TO_END = 60.0
# The first rank that ends takes the others with it. Rank 0 should be the first.
_SECONDS_FOR_RANK_0 = 10.0


class HostUpdateResult(enum.IntFlag):
    """What happens to the hosts; the values are Horovod's."""

    no_res = 0
    removed = 1
    added = 2
    mixed = removed | added


_CHANGES = {
    "removed": HostUpdateResult.removed,
    "added": HostUpdateResult.added,
    "mixed": HostUpdateResult.mixed,
}


class Announcement:
    """The launcher's announcement to this start of the ranks; rank 0 looks for it."""

    def __init__(self, directory: Path, start: str) -> None:
        self._directory = directory
        self._start = start
        self._path = directory / "hosts.json"
        self._next_look = 0.0
        self._seen: tuple[int, int] | None = None  # inode and time of the file that was read
        self._found = HostUpdateResult.no_res
        self._complaint = ""

    def look(self) -> HostUpdateResult:
        """Return what is announced. The file is looked at once a second at most."""
        now = time.monotonic()
        if self._found or now < self._next_look:
            return self._found
        self._next_look = now + _SECONDS_BETWEEN_LOOKS
        try:
            status = os.stat(self._path, follow_symlinks=False)
            version = (status.st_ino, status.st_mtime_ns)
            if version != self._seen:
                self._found = self._read()
                self._seen = version
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            # The training can go on without it, so it is no reason to fail.
            if self._complaint != str(error):
                self._complaint = str(error)
                print(f"elastic: cannot read {self._path}: {error}", file=sys.stderr, flush=True)
        return self._found

    def confirm(self) -> None:
        """Tell the launcher that the ranks of this start end after their commit."""
        content = {"schema": _LEFT_SCHEMA, "start": self._start}
        with atomic_file.replaced(self._directory / "left.json") as stream:
            stream.write(json.dumps(content).encode())

    def _read(self) -> HostUpdateResult:
        descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, "rb") as stream:
            content: Any = json.load(stream)
        if not isinstance(content, dict) or content.get("schema") != _UPDATE_SCHEMA:
            raise ValueError("it is not an announcement of this version of batchai run")
        if content.get("start") != self._start:
            return HostUpdateResult.no_res
        change = _CHANGES.get(content.get("change"))
        if change is None:
            raise ValueError("it does not say how the hosts change")
        return change


def announcement() -> Announcement | None:
    """Return where `batchai run` announces changes; None if it has not started the ranks."""
    directory, start = os.environ.get(DIRECTORY_VARIABLE), os.environ.get(START_VARIABLE)
    return Announcement(Path(directory), start) if directory and start else None


def of_rank_0(value: int) -> int:
    """Return rank 0's number on every rank. Collective."""
    return value if world.size() == 1 else agreement.gather_numbers([value])[0][0]


def wait_for_all() -> None:
    """Return when all ranks have called it. Collective."""
    of_rank_0(0)


def limit_the_end() -> None:
    """End this rank by force in a minute, if something in it never ends."""
    force = threading.Timer(_SECONDS_TO_END, os._exit, [EXIT_CODE])
    force.daemon = True
    force.start()


def end_process(rank: int) -> NoReturn:
    """End this rank with the agreed exit code, rank 0 first."""
    if rank != 0:
        time.sleep(_SECONDS_FOR_RANK_0)
    raise SystemExit(EXIT_CODE)
