# SPDX-License-Identifier: Apache-2.0
"""The Work objects that torch.distributed returns for operations that it has started."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist

from .. import torch_streams
from ..engine import Handle
from ..errors import CollectiveTimeoutError
from ..messages import Message


class EngineWork(dist.Work):
    """One or several operations of the engine, or messages, that torch sees as one.

    `finish` runs once, when all have succeeded, and copies the results to their places. A thread
    that waits completes the operations itself; only a future, on which torch's own code waits,
    needs another thread. `limit` is the group's timeout in seconds if it has one of its own.
    `streams` are the CUDA streams whose order the operations follow.
    """

    def __init__(
        self,
        handles: Sequence[Handle | Message],
        result: list[torch.Tensor],
        finish: Callable[[], None] | None,
        completer: Completer | OwnCompleter,
        limit: float | None = None,
        streams: Mapping[torch.device, int] | None = None,
        source: Callable[[], int] | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self._check = check
        self._handles = list(handles)
        self._result = result
        self._finish = finish
        self._completer = completer
        self._limit = limit
        self._streams = dict(streams or {})
        self._source = source
        self._source_member = -1
        self._error: BaseException | None = None
        self._done = False
        self._lock = threading.Lock()
        self._future_lock = threading.Lock()
        self._end_of_future: torch.futures.Future | None = None
        self._future: torch.futures.Future | None = None
        self._future_has_ended = False
        self._future_error = ""
        self._future_deadline: float | None = None
        self._when_complete: Callable[[EngineWork], None] | None = None
        self.place = 0
        """The number of the group's operation after which callbacks of the future may begin."""
        self.started_by: EngineWork | None = getattr(_settling, "work", None)
        """The work in whose callback this one was started."""
        self.further: Further | None = None
        """What callbacks of the future have started, while the future is completed."""

    @property
    def completer(self) -> Completer | OwnCompleter:
        """What completes the future."""
        return self._completer

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait for the end; raise the error.

        On CUDA, this makes the current stream wait, and the host only until the operations are
        under way. A timeout of 0 leaves it to the group's timeout and the engine's deadlines.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
        if seconds <= 0 and self._limit is not None:
            seconds = self._limit
        if seconds > 0 and not self._done:
            self._wait_at_most(seconds)
        self.complete()
        if self._error is not None:
            raise self._error
        self._order_current_streams()
        return True

    def _wait_at_most(self, seconds: float, deadline: float | None = None) -> None:
        if deadline is None:
            deadline = time.monotonic() + seconds
        for handle in list(self._handles):
            try:
                handle.wait_only(max(deadline - time.monotonic(), 0.001))
            except CollectiveTimeoutError as error:
                raise CollectiveTimeoutError(
                    f"group {self._completer.name}: Timed out waiting {1000 * seconds:.0f}ms for "
                    "an operation, which goes on; a rank is late, stuck or did not call it "
                    f"({error})"
                ) from None
            except Exception:
                # complete() keeps this error.
                return

    def _order_current_streams(self) -> None:
        """Make the current streams wait for those that the operations follow."""
        for device, number in self._streams.items():
            torch_streams.make_current_wait(device, number)

    def complete(self) -> None:
        """Wait for the end and keep the error, if there is one."""
        with self._lock:
            if self._done:
                return
            try:
                for handle in self._handles:
                    handle.wait_only()
                self._order_current_streams()
                if self._source is not None:
                    self._source_member = self._source()
                if self._check is not None:
                    self._check()
                if self._finish is not None:
                    try:
                        self._finish()
                    finally:
                        for device, number in list(self._streams.items()):
                            # What is copied goes back to the tensors of that stream.
                            torch_streams.make_wait_for_current(device, number)
                            # The copies to the results' places are in the order of this one.
                            self._streams[device] = torch_streams.current(device)
            except Exception as error:
                self._error = error
            # This also releases the names and the buffers.
            for handle in self._handles:
                handle.release()
            self._handles, self._finish, self._source = [], None, None
            self._done = True
            then, self._when_complete = self._when_complete, None
        if then is not None:
            then(self)

    def when_complete(self, action: Callable[[EngineWork], None]) -> None:
        """Call this once complete() has released the operations; to be set before the first use."""
        self._when_complete = action

    def leave_behind(self) -> bool:
        """Let the end of this object wait for nothing; tell whether there were messages.

        Who has this object may still wait for operations, but not for messages.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            for handle in self._handles:
                handle.leave_behind()
            return any(isinstance(handle, Message) for handle in self._handles)
        finally:
            self._lock.release()

    def is_completed(self) -> bool:
        """Tell whether all operations are done, successfully or not."""
        if self._done:
            return True
        # A thread that has the lock waits for the operations, so they are not done.
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if not all(handle.poll() for handle in self._handles):
                return False
        finally:
            self._lock.release()
        self.complete()
        return True

    def is_success(self) -> bool:
        """Tell whether all operations have succeeded."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """Return the error of the failed operation."""
        return self._error

    def result(self) -> list[torch.Tensor]:
        """Return the tensors that hold the results."""
        return self._result

    def source_rank(self) -> int:
        """Return the member that a receive got its message from."""
        return self._source_member

    _source_rank = source_rank

    def synchronize(self) -> None:
        """Wait for the end."""
        self.wait()

    def get_future(self) -> torch.futures.Future:
        """Return a future of the result, which a thread of the group completes.

        An error is a RuntimeError that has the text.
        """
        with self._future_lock:
            if self._future is None:
                # Without its devices, a future would not make its reader's streams wait.
                devices = list(self._streams)
                self._end_of_future = torch.futures.Future(devices=devices or None)
                # An exception that is set would be a value to torch's code in C++, such as DDP's;
                # one that is raised is an error there, too.
                self._future = self._end_of_future.then(self._result_of_future)
                if self._limit is not None:
                    self._future_deadline = time.monotonic() + self._limit
                if self._completer.calling() is None:
                    # No callback can have begun before the future was asked for.
                    self.place = max(self.place, self._completer.last_place)
                self._completer.add(self)
            return self._future

    def _result_of_future(self, _end: torch.futures.Future) -> list[torch.Tensor]:
        if self._future_error:
            raise RuntimeError(self._future_error)
        return self._result

    def settle(self) -> None:
        """Wait, and complete the future; called by the completer."""
        if self._future_deadline is not None:
            try:
                self._wait_at_most(self._limit, self._future_deadline)
            except CollectiveTimeoutError as error:
                if not self._all_have_ended():
                    # They go on, for whoever waits for this object.
                    self.end_future(error)
                    return
        with ExitStack() as stack:
            # The future takes down where the current streams are, so these must be the streams
            # that the results are in the order of.
            for device, number in self._streams.items():
                stack.enter_context(torch.cuda.stream(torch_streams.stream_of(device, number)))
            self.complete()
            self.end_future(self._error)

    def _all_have_ended(self) -> bool:
        return all(handle.poll() for handle in list(self._handles))

    def end_future(self, error: BaseException | None) -> None:
        """End the future with the result or with an error, unless it has ended already."""
        with self._future_lock:
            if self._future_has_ended:
                return
            self._future_has_ended = True
        if error is not None:
            self._future_error = f"{type(error).__name__}: {error}"
        self._end_of_future.set_result(self._result)


class _WorkThatIsDone(dist.Work):
    """Stands for an operation that was over before its function returned."""

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Return at once."""
        return True

    def synchronize(self) -> None:
        """Return at once."""

    def is_completed(self) -> bool:
        """Return True."""
        return True

    def is_success(self) -> bool:
        """Return True."""
        return True


DONE = _WorkThatIsDone()
"""What is returned to a caller that only waits for it."""


class WorkOfSeveral(dist.Work):
    """Several Works that torch sees as one: what was started between two calls."""

    def __init__(self, works: Sequence[EngineWork]) -> None:
        super().__init__()
        self._works = list(works)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait for all of them; raise the first error."""
        for work in self._works:
            work.wait(timeout)
        return True

    def synchronize(self) -> None:
        """Wait for all of them."""
        self.wait()

    def is_completed(self) -> bool:
        """Tell whether all are done."""
        return all([work.is_completed() for work in self._works])

    def is_success(self) -> bool:
        """Tell whether all have succeeded."""
        return all([work.is_success() for work in self._works])

    def exception(self) -> BaseException | None:
        """Return the first error."""
        return next((work.exception() for work in self._works if work.exception()), None)

    def result(self) -> list[torch.Tensor]:
        """Return the tensors that hold the results."""
        return [tensor for work in self._works for tensor in work.result()]

    def get_future(self) -> torch.futures.Future:
        """Return a future of all results."""
        futures = torch.futures.collect_all([work.get_future() for work in self._works])
        return futures.then(
            lambda done: [tensor for each in done.value() for tensor in each.value()]
        )


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
        work: EngineWork | None = getattr(_settling, "work", None)
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


# In a thread that completes futures, the work whose future it completes.
_settling = threading.local()


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
