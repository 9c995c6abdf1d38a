# SPDX-License-Identifier: Apache-2.0
"""Process sets: only the one of all ranks exists yet."""

from __future__ import annotations

from typing import Any

from mpi_bridge import world

from .unsupported import not_supported, unsupported_function


class ProcessSet:
    """A subset of ranks. Only global_process_set can be used yet."""

    def __init__(self, ranks_or_comm: Any) -> None:
        raise not_supported("ProcessSet", "use global_process_set, which holds all ranks")


class _GlobalProcessSet:
    process_set_id = 0

    def rank(self) -> int:
        """Return this process's number in the set."""
        return world.rank()

    def size(self) -> int:
        """Return the number of ranks in the set."""
        return world.size()

    def included(self) -> bool:
        """Tell whether this process is in the set."""
        return True

    @property
    def ranks(self) -> list[int]:
        """The ranks of the set."""
        return list(range(world.size()))


global_process_set = _GlobalProcessSet()

add_process_set = unsupported_function("add_process_set", "use global_process_set")
remove_process_set = unsupported_function("remove_process_set", "use global_process_set")


def require_global(process_set: Any) -> None:
    """Refuse every process set but the one of all ranks."""
    if process_set is not global_process_set:
        raise not_supported("process_set", "only global_process_set is")
