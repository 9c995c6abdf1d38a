# SPDX-License-Identifier: Apache-2.0
"""The names that torch.distributed's operations get; needs no ranks."""

import pytest

pytest.importorskip("torch")

from mpi_bridge.torch_distributed.naming import Naming


def names(naming, sequence):
    return [naming.name(signature) for signature in sequence]


def test_a_sequence_that_repeats_gets_names_that_repeat():
    naming = Naming("g")
    step = ["a", "b", "c", "b"]
    names(naming, step * 8)
    cycle = names(naming, step * 2)
    assert len(set(cycle)) == 8
    assert names(naming, step * 2) == cycle


def test_an_operation_beside_the_loop_does_not_disturb_it():
    naming = Naming("g")
    names(naming, "abc" * 10)
    cycle = names(naming, "abc" * 3)
    once = naming.name("loss")
    again = naming.name("loss")
    assert once != again
    assert names(naming, "abc" * 3) == cycle


def test_a_loop_with_a_run_of_equal_operations_is_found_in_the_end():
    naming = Naming("g")
    step = ["layer"] * 24 + ["loss"]
    names(naming, step * 20)
    assert names(naming, step) == names(naming, step)
    assert len(set(names(naming, step))) == 25


def test_another_loop_takes_the_place_of_the_first():
    naming = Naming("g")
    first = set(names(naming, "ab" * 32))
    names(naming, "cde" * 40)
    cycle = names(naming, "cde" * 3)
    assert names(naming, "cde" * 3) == cycle
    assert not first & set(cycle)


def test_no_name_comes_again_before_a_cycle_is_known():
    naming = Naming("g")
    given = names(naming, range(1000))
    assert len(set(given)) == 1000


def test_a_name_that_is_taken_is_replaced_outside_of_the_cycle():
    naming = Naming("g")
    cycle = set(names(naming, "a" * 200)[-8:])
    taken: list[str] = []
    for _ in range(100):
        taken.append(naming.name("a", taken))
    assert len(set(taken)) == 100
    # Memory is kept for the names of a cycle, so there must not be more and more of them.
    assert {name for name in taken if naming.cycle_of(name)} == cycle
