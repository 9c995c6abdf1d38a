# SPDX-License-Identifier: Apache-2.0
"""Signals while the main thread waits for other ranks."""

import launch
import pytest

SEVERAL = [how for how in launch.LAUNCHERS if how != "1 rank"]


@launch.checks("signals.py", hows=SEVERAL)
def test_signals(how, name):
    launch.assert_passed(("signals.py",), how, name)


@pytest.mark.parametrize("how", SEVERAL)
def test_an_exception_in_a_collective_ends_it_on_all_ranks(how):
    result = launch.run("interrupted.py", how, seconds=60)
    assert "interrupted" in result.stdout, result.stdout + result.stderr
    assert "rank 1: " in result.stdout, result.stdout + result.stderr
    assert "left an operation that was under way, because of a signal" in result.stdout
