# SPDX-License-Identifier: Apache-2.0
"""Which gradients share a block of memory, and where they are in it.

The layout depends only on names, types, shapes and settings, so that all ranks find the same one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from . import result_memory

# One block is filled while the previous one travels; larger blocks would leave nothing to overlap.
_LARGEST_BLOCK = 32 << 20


@dataclass(frozen=True)
class Item:
    """One gradient: the name of its variable, its type and its shape."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Its size in memory."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype.name}{list(self.shape)}"


@dataclass
class Block:
    """Gradients of one type that are reduced as one vector."""

    name: str
    dtype: np.dtype
    nbytes: int = 0
    items: list[tuple[int, Item]] = field(default_factory=list)  # with the position in the list
    offsets: list[int] = field(default_factory=list)  # in bytes, parallel to items

    def add(self, position: int, item: Item) -> None:
        """Append a gradient, aligned."""
        self.items.append((position, item))
        self.offsets.append(self.nbytes)
        self.nbytes += result_memory.aligned(item.nbytes)

    def views(self, memory: np.ndarray) -> list[np.ndarray]:
        """Return the gradients' places in the block's memory."""
        return [
            memory[offset : offset + item.nbytes].view(self.dtype).reshape(item.shape)
            for (_, item), offset in zip(self.items, self.offsets)
        ]


def assign(
    label: str,
    items: Sequence[Item],
    groups: Sequence[Sequence[int]],
    threshold: int,
    order: Iterable[int] | None = None,
    enough: int = _LARGEST_BLOCK,
) -> list[Block]:
    """Return blocks in the order of their first gradient.

    Gradients of one group and type share a block. The others fill blocks of up to `threshold`
    bytes; a single gradient may exceed it. A block of `enough` bytes is not filled further. `order`
    has the positions of the items in the order in which they are assigned; without it, that is the
    order of the list.
    """
    limit = min(threshold, _LARGEST_BLOCK)
    group_of = {position: number for number, group in enumerate(groups) for position in group}
    blocks: list[Block] = []
    open_blocks: dict[tuple[int | None, np.dtype], Block] = {}
    for position in range(len(items)) if order is None else order:
        item = items[position]
        group = group_of.get(position)
        key = (group, item.dtype)
        block = open_blocks.get(key)
        is_full = block is not None and (
            block.nbytes >= enough or block.nbytes + item.nbytes > limit
        )
        if block is None or (group is None and is_full):
            block = open_blocks[key] = Block(f"{label}/{item.name}", item.dtype)
            blocks.append(block)
        block.add(position, item)
    return blocks
