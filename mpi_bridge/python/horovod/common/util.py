# SPDX-License-Identifier: Apache-2.0
"""Small functions that the framework packages share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

_Item = TypeVar("_Item")


def split_list(items: Sequence[_Item], parts: int) -> list[list[_Item]]:
    """Return the items in `parts` lists of nearly equal length, without empty lists."""
    lists, start = [], 0
    for length in even_parts(len(items), parts):
        if length:
            lists.append(list(items[start : start + length]))
        start += length
    return lists


def even_parts(total: int, parts: int) -> list[int]:
    """Return `parts` numbers that add up to `total`; the first ones get the remainder."""
    quotient, remainder = divmod(total, parts)
    return [quotient + (1 if part < remainder else 0) for part in range(parts)]


def num_rank_is_power_2(num_rank: int) -> bool:
    """Tell whether the number is a power of two."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0
