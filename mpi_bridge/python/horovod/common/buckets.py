# SPDX-License-Identifier: Apache-2.0
"""Which arrays travel together: many small messages become few large ones.

The assignment depends only on the order, type and length of the items, so that all ranks that see
the same model make the same buckets without talking to each other.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

_THRESHOLD_VARIABLE = "HOROVOD_FUSION_THRESHOLD"
_DEFAULT_THRESHOLD = 128 << 20


@dataclass(frozen=True)
class Item:
    """One array: `count` elements of type `dtype`, each of `itemsize` bytes on the wire."""

    name: str
    dtype: str
    count: int
    itemsize: int


@dataclass
class Bucket:
    """Items of one type, by their position in the list that was assigned."""

    dtype: str
    count: int = 0
    nbytes: int = 0
    members: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)  # in elements, parallel to members


def threshold() -> int:
    """Return the bytes above which a bucket takes no further item."""
    text = os.environ.get(_THRESHOLD_VARIABLE)
    if text is None:
        return _DEFAULT_THRESHOLD
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise ValueError(f"{_THRESHOLD_VARIABLE} must be a number of bytes >= 0, not {text!r}")
    return value


def assign(items: Sequence[Item], limit: int) -> list[Bucket]:
    """Return buckets in the order of their first item; one item may exceed the limit alone."""
    buckets: list[Bucket] = []
    open_buckets: dict[str, Bucket] = {}
    for position, item in enumerate(items):
        length = item.count * item.itemsize
        bucket = open_buckets.get(item.dtype)
        if bucket is None or bucket.nbytes + length > limit:
            bucket = Bucket(item.dtype)
            open_buckets[item.dtype] = bucket
            buckets.append(bucket)
        bucket.members.append(position)
        bucket.offsets.append(bucket.count)
        bucket.count += item.count
        bucket.nbytes += length
    return buckets


def describe(items: Sequence[Item]) -> str:
    """Return a text that is equal on all ranks exactly when their items are."""
    return ", ".join(f"{item.name}:{item.dtype}[{item.count}]" for item in items)
