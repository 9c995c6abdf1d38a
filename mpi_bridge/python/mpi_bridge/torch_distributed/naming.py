# SPDX-License-Identifier: Apache-2.0
"""Names for operations that have none.

torch.distributed matches operations by their order in a group. The engine matches them by name, and
plans what is repeated under the same names. A training loop repeats one sequence of operations, so
this module finds the period of the sequence and gives each place of a cycle a name of its own. All
ranks see the same sequence, and so find the same names without communication.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

# A period counts only if the latest operations repeat in it: at least two cycles, and at least this
# many operations. The cycle is unrolled to at least as many operations, so that operations of one
# step do not wait for those of the previous step, whose names they would have.
_SHORTEST_CYCLE = 8
_LONGEST_HISTORY = 1024
# A cycle is given up after more consecutive operations outside it than this and than its length.
_PATIENCE = 8


class Naming:
    """The names of one group's operations, in the order of their submission."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._submitted = 0
        self._count = 0  # number of names outside a cycle
        self._generation = 0
        self._history: list[Hashable] = []
        self._cycle: list[Hashable] = []
        self._period = 0
        self._place = 0
        self._misses = 0  # consecutive operations outside the cycle

    @property
    def count(self) -> int:
        """The number of operations so far."""
        return self._submitted

    def cycle_of(self, name: str) -> int:
        """Return the number of the present cycle if the name belongs to it, else 0."""
        prefix = f"{self._prefix}.cycle{self._generation}."
        return self._generation if self._cycle and name.startswith(prefix) else 0

    def name(self, signature: Hashable, taken: Sequence[str] = ()) -> str:
        """Return the name of the next operation; matching operations have equal `signature`s.

        The names `taken` are in use by operations that end together with this one, so it gets
        another one, as on all ranks.
        """
        self._submitted += 1
        self._history.append(signature)
        if len(self._history) >= 2 * _LONGEST_HISTORY:
            del self._history[:-_LONGEST_HISTORY]
        if self._cycle and self._cycle[self._place] == signature:
            planned = self._planned()
            # What comes again is not of the cycle: memory is kept for the names that are.
            return f"{self._prefix}.again.{self._submitted}" if planned in taken else planned
        self._count += 1
        self._misses += 1
        if self._misses > max(_PATIENCE, len(self._cycle)):
            self._cycle, self._period = [], 0
        self._look_for_a_cycle()
        return f"{self._prefix}.{self._count}"

    def _planned(self) -> str:
        name = f"{self._prefix}.cycle{self._generation}.{self._place}"
        self._place = (self._place + 1) % len(self._cycle)
        self._misses = 0
        return name

    def _look_for_a_cycle(self) -> None:
        """Adopt the sequence that the history repeats, if its period is longer than the cycle's."""
        period = _period(self._history[-_LONGEST_HISTORY:], self._period + 1)
        if period is None:
            return
        self._cycle = self._history[-period:] * -(-_SHORTEST_CYCLE // period)
        self._period, self._place, self._misses = period, 0, 0
        self._generation += 1


def _period(history: list[Hashable], shortest: int) -> int | None:
    """Return the shortest period, from `shortest` on, in which the history's end repeats."""
    size = len(history)
    for period in range(shortest, size // 2 + 1):
        length = max(2 * period, _SHORTEST_CYCLE)
        if length <= size and all(
            history[place] == history[place - period]
            for place in range(size - 1, size - 1 - (length - period), -1)
        ):
            return period
    return None
