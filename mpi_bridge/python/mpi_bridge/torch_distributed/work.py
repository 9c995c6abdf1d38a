# SPDX-License-Identifier: Apache-2.0
"""The Work objects that torch.distributed returns for operations that it has started."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist

from ..engine import Handle


class EngineWork(dist.Work):
    """One or several operations of the engine that torch sees as one.

    `finish` runs once, when all have succeeded, and copies the results to their places. A thread
    that waits completes the operations itself; only a future, on which torch's own code waits,
    needs another thread.
    """

    def __init__(
        self,
        handles: Sequence[Handle],
        result: list[torch.Tensor],
        finish: Callable[[], None] | None,
        completer: Completer,
    ) -> None:
        super().__init__()
        self._handles = list(handles)
        self._result = result
        self._finish = finish
        self._completer = completer
        self._error: BaseException | None = None
        self._done = False
        self._lock = threading.Lock()
        self._future: torch.futures.Future | None = None

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait for the end; raise the error. A timeout of 0 leaves it to the engine's deadlines."""
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
        if seconds > 0 and not self._done:
            for handle in self._handles:
                handle.wait(seconds)
        self.complete()
        if self._error is not None:
            raise self._error
        return True

    def complete(self) -> None:
        """Wait for the end and keep the error, if there is one."""
        with self._lock:
            if self._done:
                return
            try:
                for handle in self._handles:
                    handle.wait()
                if self._finish is not None:
                    self._finish()
            except Exception as error:
                self._error = error
            # This also releases the names and the buffers.
            for handle in self._handles:
                handle.release()
            self._handles, self._finish = [], None
            self._done = True

    def is_completed(self) -> bool:
        """Tell whether all operations are done, successfully or not."""
        if self._done:
            return True
        with self._lock:
            if not all(handle.poll() for handle in self._handles):
                return False
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

    def synchronize(self) -> None:
        """Wait for the end."""
        self.wait()

    def get_future(self) -> torch.futures.Future:
        """Return a future of the result, which a thread of the group completes."""
        with self._lock:
            if self._future is None:
                self._future = torch.futures.Future()
                self._completer.add(self)
            return self._future

    def settle(self) -> None:
        """Wait, and complete the future; called by the completer."""
        self.complete()
        if self._error is not None:
            self._future.set_exception(self._error)
        else:
            self._future.set_result(self._result)


class Completer:
    """A thread that completes one group's futures in the order of their operations.

    Each group has its own thread, so that operations of one group do not wait for those of another.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def add(self, work: EngineWork) -> None:
        """Complete the work's future when it is done."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name=f"mpi_bridge {self._name}", daemon=True
            )
            self._thread.start()
        self._waiting.put(work)

    def stop(self) -> None:
        """End the thread once it has completed its operations."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (work := self._waiting.get()) is not None:
            work.settle()
