# SPDX-License-Identifier: Apache-2.0
"""MPI_BRIDGE_CHECK_REPLICAS=N: compares the parameters of all ranks after every N steps.

Each rank hashes its tensors, and one allreduce of four numbers tells whether all have the same
hashes. Only if they do not, further ones find the first tensor that differs, and on which ranks.
"""

from __future__ import annotations

import array
import hashlib
import os
from collections.abc import Sequence

from . import engine, process_sets, world
from .datatype import Op
from .engine import Kind
from .errors import InvalidArgumentError, MismatchError

VARIABLE = "MPI_BRIDGE_CHECK_REPLICAS"

# A value v > 0 travels as v and _SUM - v. Their maxima add up to _SUM only if all ranks have the
# same value, and the zeros of ranks that have joined change nothing.
_SUM = 1 << 62
_LARGEST = (1 << 61) - 1


def interval() -> int:
    """Return after how many steps the ranks compare their parameters; 0 for never."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise InvalidArgumentError(f"{VARIABLE} must be a number of steps, not {text!r}")
    return int(text)


def hash_of_bytes(content: object) -> int:
    """Return a hash of an object with the buffer protocol."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


class Checks:
    """Counts the steps on one list of tensors, and compares the ranks' tensors when it is time.

    `what` says whose step it is, and is the same on all ranks for the same tensors. `process_set`
    has the number of the set whose members are to have the same tensors. With `at_begin`, the
    tensors are those at the beginning of each step, where the step before is complete.
    """

    def __init__(self, what: str, process_set: int, at_begin: bool = False) -> None:
        self._what = what
        self._process_set = process_set
        self._every = interval()
        self._before_first = -1 if at_begin else 0
        self._steps = self._before_first  # completed
        self._counted_since = engine.session_and_joins()

    def is_due(self) -> bool:
        """Count a step; tell whether compare() must follow. The same on all ranks."""
        if not self._every:
            return False
        if self._counted_since != engine.session_and_joins():
            # A failure, or the end of its data, may have come to each rank in another step.
            self._counted_since, self._steps = engine.session_and_joins(), self._before_first
        self._steps += 1
        return self._steps > 0 and self._steps % self._every == 0

    def require_same_interval(self) -> None:
        """Collective: raise MismatchError on all ranks unless they compare after as many steps.

        All ranks must call it, whatever their interval is, because others would wait for them.
        """
        value = min(interval(), _LARGEST - 1) + 1
        if not self._are_same([value])[0]:
            raise MismatchError(
                f"{VARIABLE}: {self._what}: the ranks have different numbers of steps: "
                f"{self._where(value)}; rank {world.rank()} has {interval()}"
            )

    def compare(self, described: Sequence[str], hashes: Sequence[int]) -> None:
        """Collective: raise MismatchError on all ranks if a hash is not the same on all of them.

        `described` has the name, type and shape of each tensor.
        """
        values = [each % _LARGEST + 1 for each in hashes]
        listed = _joined(described)
        whole = _joined(map(str, values))
        is_same = self._are_same([whole, listed])
        if not is_same[1]:
            raise MismatchError(
                f"{VARIABLE}: {self._what}: the ranks have different parameters: "
                f"{self._where(listed)}; rank {world.rank()} has {', '.join(described):.300}"
            )
        if is_same[0]:
            return
        is_same = self._are_same(values)
        different = [number for number, same in enumerate(is_same) if not same]
        first = different[0]
        raise MismatchError(
            f"{VARIABLE}: {self._what}: after step {self._steps}, {described[first]} is not the "
            f"same on all ranks: {self._where(values[first])} ({len(different)} of {len(values)} "
            "tensors differ)"
        )

    def _are_same(self, values: Sequence[int]) -> list[bool]:
        numbers = array.array("q", [*values, *(_SUM - value for value in values)])
        self._largest(numbers)
        half = len(values)
        return [numbers[i] + numbers[i + half] == _SUM for i in range(half)]

    def _where(self, value: int) -> str:
        """Collective: say which ranks have the same value."""
        members = process_sets.ranks(self._process_set)
        numbers = array.array("q", bytes(8 * len(members)))
        numbers[members.index(world.rank())] = value
        self._largest(numbers)
        ranks: dict[int, list[int]] = {}
        for member, found in zip(members, numbers):
            if found:  # zero: the rank has joined
                ranks.setdefault(found, []).append(member)
        groups = sorted(ranks.values(), key=lambda group: (-len(group), group))
        return "one value on ranks " + ", another on ".join(map(str, groups))

    def _largest(self, numbers: array.array) -> None:
        engine.call(
            Kind.ALLREDUCE,
            numbers,
            numbers,
            op=Op.MAX,
            name=f"replicas of {self._what}",
            process_set=self._process_set,
        )


def _joined(texts: object) -> int:
    return hash_of_bytes("\n".join(texts).encode()) % _LARGEST + 1
