# SPDX-License-Identifier: Apache-2.0
"""What is printed when a rank of torch.distributed ends while the others wait for it."""

import re

import launch
import pytest

pytest.importorskip("torch")

HOWS = [how for how in launch.LAUNCHERS if how != "1 rank"]


def ends(how, ending):
    return launch.run_until_a_rank_fails("torch_ends.py", how, ending, 300).stderr


# What torch puts before each line that it has collected is part of the lines.
@pytest.mark.parametrize("ending", ["inner", "beside_a_thread_that_waits"])
@pytest.mark.parametrize("how", HOWS)
def test_the_traceback_is_printed(how, ending):
    errors = ends(how, ending)
    assert re.search(r"^\[rank\d+\]: Traceback \(most recent call last\):$", errors, re.M), errors
    assert re.search(r"^\[rank\d+\]: ValueError: on purpose$", errors, re.M), errors
    assert re.search(r'^\[rank\d+\]:   File ".*torch_ends\.py", line \d+, in inner$', errors, re.M)
    last = re.findall(r"\[rank(\d+)\]: ValueError", errors)[0]
    assert f"rank {last}: uncaught ValueError: on purpose" in errors


@pytest.mark.parametrize("how", HOWS[:1])
def test_the_traceback_of_an_interrupt_is_printed(how):
    errors = ends(how, "interrupted")
    assert re.search(r"^\[rank\d+\]: KeyboardInterrupt$", errors, re.M), errors
    assert "uncaught KeyboardInterrupt" in errors


@pytest.mark.parametrize("how", HOWS[:1])
def test_the_text_of_an_exit_is_printed(how):
    assert "this text ends it" in ends(how, "exits")


@pytest.mark.parametrize("how", HOWS[:1])
def test_the_traceback_of_a_thread_is_printed(how):
    errors = ends(how, "in_a_thread")
    assert "Exception in thread" in errors
    assert "ValueError: on purpose" in errors
