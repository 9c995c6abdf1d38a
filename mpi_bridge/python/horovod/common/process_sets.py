# SPDX-License-Identifier: Apache-2.0
"""Process sets: subsets of the ranks that have collectives of their own.

They are made by init(process_sets=[...]) or at any time by add_process_set(), which all ranks of
the job must call alike. Horovod wants HOROVOD_DYNAMIC_PROCESS_SETS for the latter; here it is
always possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mpi_bridge import InvalidArgumentError, world
from mpi_bridge import process_sets as native

from .unsupported import not_supported


class ProcessSet:
    """Some of the ranks. It has neither a number nor a size before it is registered."""

    def __init__(self, ranks_or_comm: Iterable[int]) -> None:
        if hasattr(ranks_or_comm, "Get_rank"):
            raise not_supported(
                "a ProcessSet of an MPI communicator", "give the list of ranks; there is no MPI"
            )
        self.ranks: list[int] = sorted(int(rank) for rank in ranks_or_comm)
        self._number: int | None = None
        self._session = -1

    @property
    def process_set_id(self) -> int | None:
        """The number of the set, None before it is registered and after it is removed."""
        return self._number if self._session == world.session() else None

    def _register(self, number: int | None) -> None:
        self._number, self._session = number, world.session()

    def rank(self) -> int | None:
        """Return this process's number in the set; None when it is not registered."""
        number = self.process_set_id
        if number is None:
            return None
        found = native.rank(number)
        if found < 0:
            raise ValueError(f"rank {world.rank()} is not in {self}")
        return found

    def size(self) -> int | None:
        """Return the number of ranks in the set; None when it is not registered."""
        return None if self.process_set_id is None else len(self.ranks)

    def included(self) -> bool | None:
        """Tell whether this process is in the set; None when it is not registered."""
        return None if self.process_set_id is None else world.rank() in self.ranks

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProcessSet) and self.ranks == other.ranks

    def __hash__(self) -> int:
        return hash(tuple(self.ranks))

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


class _GlobalProcessSet(ProcessSet):
    """All ranks."""

    def __init__(self) -> None:
        self._number, self._session = 0, 0

    @property
    def process_set_id(self) -> int:
        """Always 0."""
        return 0

    @property
    def ranks(self) -> list[int]:  # type: ignore[override]
        """The ranks of the job."""
        return list(range(world.size()))

    def rank(self) -> int:
        """Return this process's number among all."""
        return world.rank()

    def size(self) -> int:
        """Return the number of all ranks."""
        return world.size()

    def included(self) -> bool:
        """Return True."""
        return True

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "global_process_set"


global_process_set = _GlobalProcessSet()


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Collective over all ranks of the job: register a set of ranks and return it."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.process_set_id is not None:
        raise ValueError(f"{process_set} is registered already")
    process_set._register(native.add(process_set.ranks))
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Collective over all ranks of the job: end a set; False if that is not possible.

    It is not if the set is not registered, or the set of all ranks.
    """
    number = process_set.process_set_id
    if not number:
        return False
    native.remove(number)
    process_set._register(None)
    return True


def register_at_init(process_sets: Iterable[ProcessSet]) -> None:
    """Collective over all ranks of the job: register those sets that are not registered yet.

    A set of the same ranks as an earlier one, or of all ranks, stands for that.
    """
    known = {tuple(ranks): number for number, ranks in get_process_set_ids_and_ranks().items()}
    for process_set in process_sets:
        if process_set.process_set_id is not None:
            continue
        ranks = tuple(process_set.ranks)
        if ranks in known:
            process_set._register(known[ranks])
        else:
            known[ranks] = add_process_set(process_set).process_set_id


def get_process_set_ids_and_ranks() -> dict[int, list[int]]:
    """Return the ranks of every registered set, by its number."""
    return {number: native.ranks(number) for number in native.ids()}


def number_of(process_set: ProcessSet) -> int:
    """Return the set's number for the engine; raise an error if this rank cannot use the set."""
    number = process_set.process_set_id
    if number is None:
        raise InvalidArgumentError(
            f"{process_set} is not registered; call add_process_set() on all ranks, "
            "or name it in init(process_sets=...)"
        )
    if number != 0 and not process_set.included():
        raise InvalidArgumentError(f"rank {world.rank()} is not in {process_set}")
    return number


def has_other_ranks(process_set: ProcessSet) -> bool:
    """Tell whether this rank shares the set with others; raise an error if it is not registered."""
    if process_set.process_set_id is None:
        number_of(process_set)  # says what to do about it
    return bool(process_set.included()) and process_set.size() > 1
