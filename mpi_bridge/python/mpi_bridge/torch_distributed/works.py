# SPDX-License-Identifier: Apache-2.0
"""The Works of a group that are not known to be done, also those that the caller has dropped."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from .work import EngineWork

_FEW = 32  # so many are kept before it is looked which of them are done


class WorksInFlight:
    """Keeps Works until they are complete, and knows which one uses a name of the engine."""

    def __init__(self) -> None:
        # Nothing that may release an operation, and so wait, happens under this lock.
        self._lock = threading.Lock()
        self._works: dict[int, tuple[EngineWork, Sequence[str]]] = {}  # by id()
        self._by_name: dict[str, EngineWork] = {}
        self._most = _FEW

    def add(self, work: EngineWork, names: Sequence[str]) -> None:
        """Keep a Work that uses these names until it is complete."""
        if len(self._works) >= self._most:
            for each in self.all():
                each.is_completed()
            self._most = 2 * len(self._works) + _FEW
        work.when_complete(self._remove)
        with self._lock:
            self._works[id(work)] = (work, names)
            for name in names:
                self._by_name[name] = work

    def user_of(self, name: str) -> EngineWork | None:
        """Return the Work that uses the name."""
        with self._lock:
            return self._by_name.get(name)

    def all(self) -> list[EngineWork]:
        """Return all Works that are not known to be done."""
        with self._lock:
            return [work for work, _ in self._works.values()]

    def leave_behind(self) -> None:
        """Let go of messages, and let the end of no operation be waited for."""
        for work in self.all():
            if not work.is_completed() and work.leave_behind():
                self._remove(work)

    def _remove(self, work: EngineWork) -> None:
        with self._lock:
            _, names = self._works.pop(id(work), (None, ()))
            for name in names:
                if self._by_name.get(name) is work:
                    del self._by_name[name]
