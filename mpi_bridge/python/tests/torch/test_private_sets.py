# SPDX-License-Identifier: Apache-2.0
"""Which process set the members of a group choose; needs no ranks."""

import pytest

from mpi_bridge import private_sets
from mpi_bridge.private_sets import COUNT, FIRST


@pytest.fixture
def latest(monkeypatch):
    return lambda number: monkeypatch.setattr(private_sets, "_latest", number)


def test_the_next_number_is_taken_so_that_none_is_soon_used_again(latest):
    latest(FIRST + 4)
    assert private_sets._next_free(0) == FIRST + 5


def test_numbers_in_use_are_passed_over_also_beyond_the_last(latest):
    latest(FIRST + COUNT - 2)
    assert private_sets._next_free(1 << (COUNT - 1) | 0b11) == FIRST + 2


def test_a_full_set_of_numbers_has_none(latest):
    latest(FIRST)
    assert private_sets._next_free((1 << COUNT) - 1) == private_sets._NONE_IS_FREE
    assert private_sets._next_free((1 << COUNT) - 1 - (1 << 7)) == FIRST + 7
