# SPDX-License-Identifier: Apache-2.0
"""Training that continues after a rank or a node was lost, or when the hosts change.

A launcher ends the whole step when one of its ranks dies, so what survives is not a process but a
file: `State.commit()` lets rank 0 write what the training needs to BATCHAI_ELASTIC_DIRECTORY.
`batchai run` then starts a new step on the remaining nodes (or a requeue starts a new job), and
`run` loads the file there before it calls the training function. If the job wants it, the other
ranks go on in their processes instead (losses.py). Failures that end no process, such as a mismatch
between ranks, are recovered from within the step, as in Horovod. If `batchai run` announces other
hosts (host_updates.py), all ranks end after the same commit.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import pickle
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, NoReturn

from mpi_bridge.errors import PeerLostError

from . import atomic_file, basics, host_updates, live_objects, losses
from .exceptions import HorovodInternalError, HostsUpdatedInterrupt
from .host_updates import DIRECTORY_VARIABLE, HostUpdateResult

_FILE_NAME = "committed.pickle"
_FORMAT = 1
# If more recoveries within a step bring no new commit, the failure is not a passing one.
_FRUITLESS_RESETS = 2


class _StepMustEnd(HostsUpdatedInterrupt):
    """The launcher starts the ranks again on other hosts once this step has ended."""

    def __init__(self, skip_sync: bool) -> None:
        super().__init__(skip_sync)
        self.committed = False  # whether the present state is the last commit


class State:
    """What a training function needs to continue, kept equal on all ranks.

    Subclasses define it with save, restore, sync, committed and adopt.
    """

    def __init__(
        self, bcast_object: Callable[[Any], Any] | None, get_rank: Callable[[], int]
    ) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._reset_callbacks: list[Callable[[], None]] = []
        self._commits = 0
        self._announcement: host_updates.Announcement | None = None
        self._update = HostUpdateResult.no_res  # announced, on rank 0
        self._interrupted = False

    def register_reset_callbacks(self, callbacks: list[Callable[[], None]]) -> None:
        """Call these after each reset, when size() and rank() may have changed.

        They are also called before a step goes on from what an earlier step has committed.
        """
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Adapt to a changed set of ranks: call reset() and then the registered callbacks."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """Make the present state the one to return to. Collective over all ranks.

        When it returns on rank 0, the state is on disk, if the job is elastic. Raises
        HostsUpdatedInterrupt on all ranks if the hosts are to change; the commit is then made.
        """
        self._keep()
        try:
            self.check_host_updates()
        except _StepMustEnd as interrupt:
            interrupt.committed = True
            raise

    def check_host_updates(self) -> None:
        """Raise HostsUpdatedInterrupt on all ranks if the hosts are to change. Collective.

        Only `batchai run` announces such a change, and each start of the ranks hears of one. In a
        step that it has not started, in a job that is not elastic, and outside of a function that
        `run` has made elastic, this does nothing.
        """
        if self._announcement is None or self._interrupted:
            return
        announced = HostUpdateResult.no_res
        if self._rank() == 0:
            announced = self._announcement.look()
            self.on_hosts_updated(self._commits, announced)
        update, must_end = divmod(
            host_updates.of_rank_0(2 * int(self._update) + bool(announced)), 2
        )
        if not update:
            return
        skip_sync = update == HostUpdateResult.removed
        if must_end:
            self._interrupted = True
            raise _StepMustEnd(skip_sync)
        # The script's own word: the launcher would take ranks that end for failed ones.
        self._update = HostUpdateResult.no_res
        raise HostsUpdatedInterrupt(skip_sync)

    def on_hosts_updated(self, timestamp: int, update_res: HostUpdateResult) -> None:
        """Note on rank 0 how the hosts are to change; the next check tells all ranks.

        `timestamp` is accepted as in Horovod and has no meaning.
        """
        self._update |= HostUpdateResult(update_res)

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Look for announcements while this context lasts. It is entered on all ranks."""
        self._announcement = host_updates.announcement()
        try:
            yield
        finally:
            self._announcement = None

    def _keep(self) -> None:
        self.save()
        directory = os.environ.get(DIRECTORY_VARIABLE)
        if directory or losses.are_wanted():
            # Ranks that outlive others must know what only these knew, with or without a file.
            committed = self.committed()
            if directory and self._rank() == 0:
                _write(Path(directory) / _FILE_NAME, self._commits + 1, committed)
        self._commits += 1

    def _end_step(self, interrupt: _StepMustEnd) -> NoReturn:
        """End all ranks, so that the launcher starts them again. Collective."""
        if not interrupt.committed:
            self._keep()
        if self._rank() == 0 and self._announcement is not None:
            self._announcement.confirm()
            print(
                f"elastic: the hosts change; the ranks end after commit {self._commits} and start "
                "again",
                file=sys.stderr,
                flush=True,
            )
        # The first rank that ends takes the others with it, so rank 0 must have written its files,
        # and each rank what it has printed.
        sys.stdout.flush()
        sys.stderr.flush()
        rank = self._rank()
        host_updates.wait_for_all()
        host_updates.limit_the_end()
        basics.shutdown()
        host_updates.end_process(rank)

    def load(self) -> bool:
        """Take over what an earlier step committed; tell whether there was something.

        Only for rank 0; sync() passes it to the others.
        """
        directory = os.environ.get(DIRECTORY_VARIABLE)
        found = _read(Path(directory) / _FILE_NAME) if directory else None
        if found is None:
            return False
        self._commits = found["commits"]
        self.adopt(found["state"])
        return True

    def save(self) -> None:
        """Remember the present state in memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Go back to what save() remembered last."""
        raise NotImplementedError

    def sync(self) -> None:
        """Make rank 0's state that of all ranks. Collective."""
        raise NotImplementedError

    def committed(self) -> Any:
        """Return what save() remembered, for a later process or fewer ranks; must be picklable.

        Called on all ranks, so it may be collective; rank 0's value is kept.
        """
        raise NotImplementedError(f"{type(self).__name__}.committed()")

    def adopt(self, committed: Any) -> None:
        """Make what committed() returned in an earlier process the present and saved state."""
        raise NotImplementedError(f"{type(self).__name__}.adopt()")

    def reset(self) -> None:
        """Hook for subclasses: the set of ranks may have changed."""


class ObjectState(State):
    """State of picklable attributes: ObjectState(broadcast_object, rank, epoch=0, batch=0).

    They are copied, so TypeError is raised for what would not be the same as a copy (live_objects).
    """

    def __init__(
        self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any
    ) -> None:
        super().__init__(bcast_object, get_rank)
        self._saved_state: dict[str, Any] = dict(kwargs)
        self._require_copyable(self._saved_state)
        self._set_attributes()
        # Copies are kept, because the script may change its own lists and dictionaries.
        self._saved_state = copy.deepcopy(self._saved_state)

    def save(self) -> None:
        """Remember the attributes' values."""
        present = {name: getattr(self, name) for name in self._saved_state}
        self._require_copyable(present)
        self._saved_state = copy.deepcopy(present)

    def restore(self) -> None:
        """Set the attributes to the remembered values."""
        self._set_attributes()

    def sync(self) -> None:
        """Take the attributes of rank 0."""
        present = {name: getattr(self, name) for name in self._saved_state}
        self._require_copyable(present)
        self._saved_state = self._bcast_object(present)
        self._set_attributes()

    def committed(self) -> Any:
        """Return the remembered values by name."""
        return self._saved_state

    def adopt(self, committed: Any) -> None:
        """Take over committed()'s value."""
        # An attribute that the script has added since keeps its first value.
        self._saved_state.update(committed)
        self._set_attributes()

    @staticmethod
    def _require_copyable(values: dict[str, Any]) -> None:
        for name, value in values.items():
            live_objects.require_no_live_object(name, value)

    def _set_attributes(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, copy.deepcopy(value))


def run_fn(func: Callable[..., Any], reset: Callable[[], None]) -> Callable[..., Any]:
    """Return `func(state, ...)` made elastic; `reset` leaves the job step and joins it again."""

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        # Nothing would catch the interrupt of a commit outside of this function.
        with state._listening():
            begin(state)
            with losses.survivors() as survivors:
                return repeated(state, survivors, *args, **kwargs)

    def begin(state: State) -> None:
        loaded = state._rank() == 0 and state.load()
        if loaded:
            print(f"elastic: goes on from commit {state._commits}", file=sys.stderr, flush=True)
        if host_updates.of_rank_0(int(loaded)):
            # The step of that commit may have had another number of ranks.
            state.on_reset()
        state.sync()

    def recover(state: State, survivors: losses.Survivors | None, skip_sync: bool) -> int:
        """Begin a new session from the saved or present state. Return how many ranks are lost."""
        begun, lost = time.monotonic(), []
        if survivors is None:
            reset()
        else:
            lost = survivors.rejoin()
        state.on_reset()
        if not skip_sync:
            state.sync()
        if survivors is not None:
            losses.say(state._commits, lost, time.monotonic() - begun)
        return len(lost)

    def repeated(
        state: State, survivors: losses.Survivors | None, *args: Any, **kwargs: Any
    ) -> Any:
        fruitless, commits = 0, state._commits
        recovers = skip_sync = False
        while True:
            try:
                if recovers and recover(state, survivors, skip_sync):
                    fruitless = 0
                recovers = skip_sync = False
                return func(state, *args, **kwargs)
            except HorovodInternalError as error:
                # Without survivors, the launcher ends this step; the next one continues from the
                # commit. The same holds for a loss that the ranks must not outlive.
                if isinstance(error, PeerLostError) and (
                    survivors is None or not survivors.may_go_on
                ):
                    raise
                fruitless = fruitless + 1 if state._commits == commits else 1
                if fruitless > _FRUITLESS_RESETS:
                    raise
                commits = state._commits
                print(f"elastic: back to commit {commits}: {error}", file=sys.stderr, flush=True)
                state.restore()
            except _StepMustEnd as interrupt:
                state._end_step(interrupt)
            except HostsUpdatedInterrupt as interrupt:
                skip_sync = interrupt.skip_sync
            recovers = True

    return wrapper


def _write(path: Path, commits: int, committed: Any) -> None:
    # Only the user may read or write the file, because it is unpickled.
    with atomic_file.replaced(path) as stream:
        content = {"format": _FORMAT, "commits": commits, "state": committed}
        pickle.dump(content, stream, protocol=pickle.HIGHEST_PROTOCOL)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as stream:
            found = pickle.load(stream)
    except FileNotFoundError:
        return None
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise HorovodInternalError(
            f"{path} was not written by this version of horovod.common.elastic; "
            "remove it to start afresh"
        )
    return found
