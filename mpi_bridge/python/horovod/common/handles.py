# SPDX-License-Identifier: Apache-2.0
"""The handle numbers that asynchronous functions return, and the operations behind them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Callable, Protocol

from mpi_bridge import engine


class Pending(Protocol):
    """An operation in flight."""

    def poll(self) -> bool:
        """Tell whether finish() would return at once."""

    def finish(self) -> Any:
        """Wait and return the result, or raise. May be called once."""


class Submitted:
    """One operation of the engine; `complete` makes the result from the engine's Result."""

    def __init__(self, handle: engine.Handle, complete: Callable[[engine.Result], Any]) -> None:
        self._handle = handle
        self._complete = complete

    def poll(self) -> bool:
        """Tell whether the operation is done."""
        return self._handle.poll()

    def finish(self) -> Any:
        """Wait for the operation and return its result."""
        try:
            return self._complete(self._handle.wait())
        finally:
            self._handle.release()


class Filled:
    """One operation on host memory of the caller's; `complete` makes the result when it is done."""

    def __init__(self, handle: engine.Handle, complete: Callable[[], Any]) -> None:
        self._handle = handle
        self._complete = complete

    def poll(self) -> bool:
        """Tell whether the operation is done."""
        return self._handle.poll()

    def finish(self) -> Any:
        """Wait for the operation and return its result."""
        self._handle.finish()
        return self._complete()


class Mapped:
    """An operation in flight whose result is changed by a function."""

    def __init__(self, pending: Pending, change: Callable[[Any], Any]) -> None:
        self._pending = pending
        self._change = change

    def poll(self) -> bool:
        """Tell whether the result is there."""
        return self._pending.poll()

    def finish(self) -> Any:
        """Wait and return the changed result."""
        return self._change(self._pending.finish())


class Together:
    """Several operations behind one number; the result is the list of their results."""

    def __init__(self, members: Sequence[Pending]) -> None:
        self._members = members

    def poll(self) -> bool:
        """Tell whether all are done."""
        return all(member.poll() for member in self._members)

    def finish(self) -> list[Any]:
        """Wait for all and return their results."""
        return finish_all(member.finish for member in self._members)


def finish_all(
    finishes: Iterable[Callable[[], Any]], failure: Exception | None = None
) -> list[Any]:
    """Call all, even if one fails; then raise the first failure, or `failure` if it is given.

    An operation that is not waited for would keep its name in use, and could still write into its
    buffers.
    """
    results = []
    for finish in finishes:
        try:
            results.append(finish())
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return results


_lock = threading.Lock()
_numbers = itertools.count()
_pending: dict[int, Pending] = {}


def register(pending: Pending) -> int:
    """Return the number for poll() and synchronize()."""
    with _lock:
        number = next(_numbers)
        _pending[number] = pending
    return number


def poll(handle: int) -> bool:
    """Tell whether synchronize(handle) would return at once."""
    with _lock:
        pending = _pending.get(handle)
    if pending is None:
        raise ValueError(f"handle {handle} is unknown, or was synchronized before")
    return pending.poll()


def synchronize(handle: int) -> Any:
    """Wait for an asynchronous operation and return its result.

    None for a handle that is unknown or was synchronized before, as in Horovod.
    """
    with _lock:
        pending = _pending.pop(handle, None)
    return None if pending is None else pending.finish()


_counts: dict[tuple[str, int, int], int] = {}


def next_name(kind: str, process_set: int = 0) -> str:
    """Return a name for an operation that the script left unnamed.

    The members of the process set must ask in the same order. A member that has joined does not
    ask, so the names of the world are counted anew after each join.
    """
    joins = engine.joins() if process_set == engine.WORLD else 0
    with _lock:
        key = kind, process_set, joins
        count = _counts[key] = _counts.get(key, 0) + 1
    return f"{kind}.noname.{joins}.{count}" if joins else f"{kind}.noname.{count}"


def forget_names() -> None:
    """Count from the beginning again, as all ranks do after init()."""
    with _lock:
        _counts.clear()
