# SPDX-License-Identifier: Apache-2.0
"""Signals while the main thread waits for other ranks."""

import re

import launch
import pytest

SEVERAL = [how for how in launch.LAUNCHERS if how != "1 rank"]


@launch.checks("signals.py", hows=SEVERAL)
def test_signals(how, name):
    launch.assert_passed(("signals.py",), how, name)


@pytest.mark.parametrize("how", SEVERAL)
def test_an_exception_in_a_collective_ends_it_on_all_ranks(how):
    result = launch.run("interrupted.py", how, seconds=600)
    interrupted = re.search(r"interrupted one of (\d+)", result.stdout)
    assert interrupted, result.stdout + result.stderr
    # Each of the others, also one that rank 0 was not connected with, knows the reason. mpirun may
    # put the words of two ranks in one line.
    reason = "left an operation that was under way, because of a signal"
    others = int(interrupted[1]) - 1
    assert result.stdout.count(reason) == others, result.stdout + result.stderr
