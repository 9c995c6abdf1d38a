# SPDX-License-Identifier: Apache-2.0
"""What operations of the engine and messages have in common while they are in flight."""

from __future__ import annotations

import sys
import threading
from typing import Any, Callable

from . import native, signals, world
from .errors import InvalidArgumentError


class InFlight:
    """A handle of the native library. `kept` are the buffers that the library may use.

    One that is no longer referred to is released.
    """

    __slots__ = ("__weakref__", "_kept", "_number", "_session")

    _prefix = ""  # of the native functions
    _what = ""  # for messages

    def __init__(self, number: int, kept: Any) -> None:
        self._number = number
        self._kept = kept
        self._session = world.session()

    def _live_number(self) -> int:
        if self._number == 0 or self._session != world.session():
            raise InvalidArgumentError(f"this {self._what} is released, or from before shutdown()")
        return self._number

    def _wait(self, seconds: float) -> None:
        """Wait for the end; raise the error if it failed. `seconds` > 0 limits the wait."""
        native.call(f"{self._prefix}_wait", self._live_number(), seconds)

    def release(self) -> None:
        """Release the handle and let go of the buffers."""
        number, self._number = self._number, 0
        if number == 0:
            return
        try:
            if self._session == world.session():
                native.call(f"{self._prefix}_release", number)
                self._kept = None
        finally:
            # The library may be using them while another thread is in shutdown().
            kept, self._kept = self._kept, None
            if kept is not None:
                world.keep_until_init(kept, self._session)

    def poll(self) -> bool:
        """Tell whether it is done, successfully or not."""
        raise NotImplementedError

    def leave_behind(self) -> None:
        """Keep this object until it is done, so that its end does not wait."""
        with _left_behind_lock:
            # Dropped without the lock, because releasing calls the library.
            now = world.session()
            ended = [each for each in _left_behind if each._session != now or each.poll()]
            for each in ended:
                _left_behind.remove(each)
            _left_behind.append(self)
        del ended

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_finalizing():  # the names of this module may be gone, and so is the library's session
            return
        number, self._number = getattr(self, "_number", 0), 0
        if number == 0:
            return
        status = 0
        if self._session == world.session():
            status = getattr(native.functions(), f"{self._prefix}_release")(number)
            if status == 0:
                return
        world.keep_until_init(self._kept, self._session)
        if status == signals.INTERRUPTED:
            signals.raise_exception()  # Python prints it: nobody can catch it here


_left_behind: list[InFlight] = []
_left_behind_lock = threading.RLock()  # the collector of garbage may come to it again
