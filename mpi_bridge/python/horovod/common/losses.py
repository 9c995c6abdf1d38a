# SPDX-License-Identifier: Apache-2.0
"""How the ranks of an elastic job go on in their processes after a loss.

Without BATCHAI_ELASTIC_KEEP_PROCESSES=1 a rank that is lost ends all ranks, and `batchai run`
starts them again. With it, the others meet (mpi_bridge.survivors) and ask `batchai run`, which
knows which tasks have really ended and how many nodes the job needs. Both write files in
BATCHAI_ELASTIC_DIRECTORY, replaced atomically: `stay.json` says that the ranks of this start know
how to go on, `loss.json` asks, and `loss-answer.json` answers. Without BATCHAI_ELASTIC_START there
is nobody to ask, and whoever has started the ranks must let them live.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable

from mpi_bridge import objects, world
from mpi_bridge.survivors import Members, place

from . import atomic_file, handles
from .host_updates import DIRECTORY_VARIABLE, START_VARIABLE

VARIABLE = "BATCHAI_ELASTIC_KEEP_PROCESSES"

_STAY_SCHEMA = "batchai-ranks-stay/v1"
_LOSS_SCHEMA = "batchai-ranks-lost/v1"
_ANSWER_SCHEMA = "batchai-ranks-lost-answer/v1"
_SECONDS_BETWEEN_LOOKS = 0.02
# The library names its records after the rank, which the launcher knows by its first number.
_RECORD_VARIABLE = "MPI_BRIDGE_FAILURE_RECORD_RANK"


class Survivors:
    """The ranks of this start as far as they are left. Made on all ranks together."""

    def __init__(self) -> None:
        directory, start = os.environ.get(DIRECTORY_VARIABLE), os.environ.get(START_VARIABLE)
        self._launcher = _Launcher(Path(directory), start) if directory and start else None
        # As the launcher counts them: a function before this one may have lost some already.
        self._tasks: list[int] = objects.allgather_object(_task())
        self._members = Members(self._consent)
        self.may_go_on = True

    def rejoin(self) -> list[int]:
        """Begin a new session with the ranks that are left. Return the tasks that are lost."""
        os.environ[_RECORD_VARIABLE] = str(_task())
        self.may_go_on = False
        lost = self._members.rejoin()
        self.may_go_on = True
        handles.forget_names()
        if self._launcher is not None:
            self._launcher.say_at_the_end(_task())
        return [self._tasks[rank] for rank in lost]

    def _consent(
        self, lost: list[int], here: list[int], is_still_so: Callable[[], bool]
    ) -> str | None:
        if self._launcher is None:
            return ""
        return self._launcher.ask(
            [self._tasks[rank] for rank in lost], [self._tasks[rank] for rank in here], is_still_so
        )

    def begin(self) -> None:
        """Tell the launcher that the ranks can go on, and end alone if something goes wrong."""
        world.end_alone(True)
        if self._launcher is not None and world.rank() == 0:
            self._launcher.say_that_ranks_stay()

    def end(self) -> None:
        """Take that back."""
        self._members.close()
        world.end_alone(False)
        if self._launcher is not None:
            self._launcher.say_that_ranks_do_not_stay()


class _Launcher:
    """`batchai run`, which decides whether the ranks go on."""

    def __init__(self, directory: Path, start: str) -> None:
        self._directory = directory
        self._start = start

    def say_that_ranks_stay(self) -> None:
        # Without it, the launcher ends all ranks after a loss, and starts them again.
        with _warning("stay.json"):
            self._write("stay.json", {"schema": _STAY_SCHEMA, "start": self._start})

    def say_that_ranks_do_not_stay(self) -> None:
        with _warning("stay.json"):
            (self._directory / "stay.json").unlink(missing_ok=True)

    def say_at_the_end(self, task: int) -> None:
        """Say that this rank ends, once it does, for Slurm may wait for the lost ones."""
        name = f"ended.{self._start}.{task}"
        _at_the_end[name] = lambda: self._write(name, {"start": self._start})

    def ask(self, lost: list[int], here: list[int], is_still_so: Callable[[], bool]) -> str | None:
        """Return why the ranks must not go on; "" if they may; None if the question is void."""
        number = secrets.token_hex(8)
        question = {"start": self._start, "number": number, "lost": lost, "here": here}
        self._write("loss.json", {"schema": _LOSS_SCHEMA, **question})
        end = time.monotonic() + place.SECONDS_TO_CONSENT
        while time.monotonic() < end:
            answer = self._read("loss-answer.json")
            if answer.get("schema") == _ANSWER_SCHEMA and answer.get("number") == number:
                return str(answer.get("refusal", "the answer cannot be understood"))
            if not is_still_so():
                # A rank that others have lost has come: the network was torn for a while.
                (self._directory / "loss.json").unlink(missing_ok=True)
                return None
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        return "batchai run does not answer"

    def _write(self, name: str, content: dict[str, Any]) -> None:
        with atomic_file.replaced(self._directory / name) as stream:
            stream.write(json.dumps(content).encode())

    def _read(self, name: str) -> dict[str, Any]:
        try:
            descriptor = os.open(self._directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(descriptor, "rb") as stream:
                content = json.load(stream)
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}


@contextmanager
def _warning(name: str) -> Iterator[None]:
    """Go on without a file that cannot be written or removed, and say so."""
    try:
        yield
    except OSError as error:
        print(f"elastic: {name}: {error}", file=sys.stderr, flush=True)


_at_the_end: dict[str, Callable[[], None]] = {}  # by the name of the file
_process = os.getpid()


# The last that is registered runs first. This is registered before what the script registers, and
# so it runs once that has ended.
@atexit.register
def _say_the_end() -> None:
    if os.getpid() != _process:
        return  # a forked child ends
    for name, say_so in _at_the_end.items():
        with _warning(name):
            say_so()


def are_wanted() -> bool:
    """Tell whether ranks are to go on in their processes."""
    return os.environ.get(VARIABLE) == "1"


@contextmanager
def survivors() -> Iterator[Survivors | None]:
    """Give what lets the ranks go on, if they are to; collective over all ranks."""
    if not are_wanted() or world.size() == 1:
        yield None
        return
    staying = Survivors()
    staying.begin()
    yield staying
    # After an exception this rank ends, and the others may still go on.
    staying.end()


def say(commit: int, lost: list[int], seconds: float) -> None:
    """Say on rank 0 that the ranks go on."""
    if world.rank() != 0:
        return
    plural = "s" if len(lost) > 1 else ""
    who = f"without rank{plural} {', '.join(map(str, lost))} " if lost else ""
    those = "1 rank goes" if world.size() == 1 else f"{world.size()} ranks go"
    print(
        f"elastic: {those} on {who}from commit {commit} after {seconds:.2f} s",
        file=sys.stderr,
        flush=True,
    )


def _task() -> int:
    """Return this process's number as its launcher counts."""
    global _own_task
    if _own_task is None:
        _own_task = world.rank()
    return _own_task


_own_task: int | None = None  # the rank of the first session
