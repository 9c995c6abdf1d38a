# SPDX-License-Identifier: Apache-2.0
"""Small helpers; needs no native library."""

import pytest

from horovod.common.util import even_parts, num_rank_is_power_2, split_list


@pytest.mark.parametrize(("total", "parts"), [(0, 3), (7, 3), (3, 7), (12, 4)])
def test_even_parts_add_up_and_the_first_get_the_remainder(total, parts):
    counts = even_parts(total, parts)
    assert sum(counts) == total
    assert sorted(counts, reverse=True) == counts
    assert max(counts) - min(counts) <= 1


def test_a_list_is_split_in_its_order_and_nothing_is_empty():
    assert split_list("abcde", 2) == [["a", "b", "c"], ["d", "e"]]
    assert split_list("ab", 5) == [["a"], ["b"]]


def test_powers_of_two():
    assert [n for n in range(10) if num_rank_is_power_2(n)] == [1, 2, 4, 8]
