# SPDX-License-Identifier: Apache-2.0
"""Which process set the members of a group choose; needs no ranks."""

from mpi_bridge.agreement import COUNT, NONE_IS_FREE, Request, next_serial, place_of


def test_the_next_number_is_taken_so_that_none_is_soon_used_again():
    assert next_serial(4, 0) == 5
    assert place_of(5) == 4


def test_numbers_in_use_are_passed_over_also_beyond_the_last():
    serial = next_serial(COUNT - 1, 1 << (COUNT - 1) | 0b11)
    assert (serial, place_of(serial)) == (COUNT + 3, 2)


def test_places_are_counted_again_after_the_last():
    assert [place_of(serial) for serial in (1, COUNT, COUNT + 1)] == [0, COUNT - 1, 0]


def test_a_full_set_of_numbers_has_none():
    assert next_serial(1, (1 << COUNT) - 1) == NONE_IS_FREE
    assert place_of(next_serial(1, (1 << COUNT) - 1 - (1 << 7))) == 7


def test_a_request_arrives_as_it_was_sent():
    request = Request(attempt=3, taken=2, latest=1 << 40, used=1 << (COUNT - 1) | 1)
    assert Request.unpack(request.pack()) == request
    assert Request.unpack(bytes(len(request.pack()))) is None
