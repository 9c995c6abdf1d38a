# SPDX-License-Identifier: Apache-2.0
"""The threads that complete the futures of a group's operations."""

from __future__ import annotations

import queue
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from .work import EngineWork

# In a thread that completes futures, the work whose future it completes.
_settling = threading.local()


def work_being_settled() -> EngineWork | None:
    """Return the work in the callbacks of whose future the calling code runs, if there is one."""
    return getattr(_settling, "work", None)


class Further:
    """Works that one thread settles after the other: what callbacks of a future have started.

    `work` is the one whose future that is, and `among` are the works that it is one of; None for
    the works of a group that no callback has started.
    """

    def __init__(self, work: EngineWork | None = None, among: Further | None = None) -> None:
        self.work = work
        self.among = among
        self.works: deque[EngineWork] = deque()
        self.is_open = True  # the callbacks run, so there may be more works
        self.is_settling = False
        self.has_thread = False


class Completer:
    """Completes one group's futures in the order of their operations, in a thread of its own.

    Each group has its own, so that operations of one group do not wait for those of another.

    What is called when a future is completed runs in that thread. It may start further operations
    and wait for their futures, as DDP's PowerSGD hook does. Another thread completes these while
    the callbacks run. All of them are completed before the next operation of the group.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.last_place = 0
        """The number of the group's last operation that no callback of its futures has started."""
        self._waiting: queue.SimpleQueue[EngineWork | None] = queue.SimpleQueue()
        self._changed = threading.Condition()  # guards the members below
        self._main = Further()  # what is left of callbacks, and comes before what is waiting
        self._thread: threading.Thread | None = None
        self._unsettled: set[EngineWork] = set()
        self._abandoned: BaseException | None = None

    def calling(self) -> EngineWork | None:
        """Return the innermost work of this group in whose callbacks the calling code runs.

        The callbacks may have gone through futures of other groups.
        """
        work = work_being_settled()
        while work is not None and work.completer is not self:
            work = work.started_by
        return work

    def add(self, work: EngineWork) -> None:
        """Complete the work's future when it is done."""
        caller = self.calling()
        with self._changed:
            if self._abandoned is None:
                self._unsettled.add(work)
                further = None if caller is None else caller.further
                if further is not None and further.is_open:
                    further.works.append(work)
                    if not further.has_thread:
                        further.has_thread = True
                        self._start(self._settle_further, further)
                    self._changed.notify_all()
                else:
                    self._waiting.put(work)
                    if self._thread is None:
                        self._thread = self._start(self._run)
                return
        # The caller holds the lock of its future.
        threading.Thread(target=work.end_future, args=(self._abandoned,), daemon=True).start()

    def _start(self, run: Callable[..., None], *arguments: Any) -> threading.Thread:
        thread = threading.Thread(
            target=run, args=arguments, name=f"mpi_bridge {self.name}", daemon=True
        )
        thread.start()
        return thread

    def stop(self) -> None:
        """End the threads once they have completed their operations.

        Waits for that, unless a callback of one of the group's futures calls this.
        """
        with self._changed:
            thread = self._thread
            if thread is None or self._abandoned is not None:
                return
            self._waiting.put(None)
        if self.calling() is None:
            thread.join()

    def abandon(self, error: BaseException) -> None:
        """End all futures with this error, also later ones.

        A thread ends when the operation that it waits for does.
        """
        with self._changed:
            self._abandoned = error
            unsettled = list(self._unsettled)
            self._waiting.put(None)
        for work in unsettled:
            work.end_future(error)

    def _run(self) -> None:
        while (work := self._next()) is not None:
            self._main.is_settling = True
            self._settle(work, self._main)

    def _next(self) -> EngineWork | None:
        """Wait for the next work of the group; None: the thread is to end."""
        main = self._main
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not main.is_settling)
                if main.works and self._abandoned is None:
                    return main.works.popleft()
            work = self._waiting.get()
            if work is not None and self._abandoned is None:
                return work
            with self._changed:
                if self._waiting.empty() or self._abandoned is not None:
                    self._thread = None
                    return None

    def _settle_further(self, further: Further | None) -> None:
        while further is not None and further is not self._main:
            with self._changed:
                self._changed.wait_for(lambda works=further: works.works or not works.is_open)
                if not further.is_open:
                    return
                work = further.works.popleft()
                further.is_settling = True
            further = self._settle(work, further)

    def _settle(self, work: EngineWork, among: Further) -> Further | None:
        """Settle a work; return the works to go on with, or None if another thread does."""
        further = work.further = Further(work, among)
        _settling.work = work
        work.settle()
        _settling.work = None
        with self._changed:
            further.is_open = False
            self._changed.notify_all()
            # So that a chain of callbacks does not keep a thread for each of its links.
            return None if further.is_settling else self._close(further)

    def _close(self, further: Further) -> Further:
        """Let what callbacks have left come next; return the works to go on with.

        The same is done for the works that were waiting for these.
        """
        while True:
            work, among = further.work, further.among
            among.works.extendleft(reversed(further.works))
            among.is_settling = False
            # No longer than needed: a chain of callbacks must not keep all its works.
            work.further = work.started_by = None
            self._unsettled.discard(work)
            self._changed.notify_all()
            if among.is_open:
                return among
            further = among


class OwnCompleter:
    """A thread for the future of one message, for which no other future must wait."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.last_place = 0

    def calling(self) -> None:
        """Messages have no order among the operations of the group."""

    def add(self, work: EngineWork) -> None:
        """Complete the work's future when it is done."""
        threading.Thread(target=work.settle, name=f"mpi_bridge {self.name}", daemon=True).start()
