# SPDX-License-Identifier: Apache-2.0
"""The assignment of gradients to messages; needs no native library."""

import pytest

from horovod.common import buckets, operations
from horovod.common.buckets import Item


def test_items_fill_a_bucket_up_to_the_limit_in_their_order():
    items = [Item(str(i), "float32", 10, 4) for i in range(5)]
    assigned = buckets.assign(items, 80)
    assert [bucket.members for bucket in assigned] == [[0, 1], [2, 3], [4]]
    assert [bucket.offsets for bucket in assigned] == [[0, 10], [0, 10], [0]]
    assert [bucket.count for bucket in assigned] == [20, 20, 10]


def test_types_do_not_mix():
    items = [Item("a", "float32", 1, 4), Item("b", "float64", 1, 8), Item("c", "float32", 1, 4)]
    assert [bucket.members for bucket in buckets.assign(items, 1000)] == [[0, 2], [1]]


def test_an_item_over_the_limit_travels_alone():
    items = [Item("a", "float32", 1, 4), Item("big", "float32", 99, 4), Item("c", "float32", 1, 4)]
    assert [bucket.members for bucket in buckets.assign(items, 8)] == [[0], [1], [2]]


def test_every_item_is_in_exactly_one_bucket_without_overlap():
    items = [Item(str(i), "float32" if i % 3 else "float16", i, 4) for i in range(40)]
    covered = []
    for bucket in buckets.assign(items, 256):
        end = 0
        for member, offset in zip(bucket.members, bucket.offsets):
            assert offset == end
            end += items[member].count
            covered.append(member)
        assert end == bucket.count
    assert sorted(covered) == list(range(40))


def test_the_threshold_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "123")
    assert buckets.threshold() == 123
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "64MB")
    with pytest.raises(ValueError, match="HOROVOD_FUSION_THRESHOLD"):
        buckets.threshold()


@pytest.mark.parametrize(("total", "parts"), [(0, 3), (7, 3), (3, 7), (12, 4)])
def test_even_parts_add_up_and_low_ranks_get_the_remainder(total, parts):
    counts = operations.even_parts(total, parts)
    assert sum(counts) == total
    assert sorted(counts, reverse=True) == counts
    assert max(counts) - min(counts) <= 1
