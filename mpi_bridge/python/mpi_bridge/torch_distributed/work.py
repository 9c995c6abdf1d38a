# SPDX-License-Identifier: Apache-2.0
"""The Work objects that torch.distributed returns for operations that it has started."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Callable

import torch
import torch.distributed as dist

from .. import torch_streams
from ..engine import Handle
from ..errors import CollectiveTimeoutError
from ..messages import Message
from .completer import Completer, Further, OwnCompleter, work_being_settled


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
        self.started_by: EngineWork | None = work_being_settled()
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
