# SPDX-License-Identifier: Apache-2.0
"""A rank that dies of an exception ends the step, also under adverse conditions."""

import launch
import pytest

HOWS = [how for how in launch.LAUNCHERS if how != "1 rank"]


@pytest.mark.parametrize("condition", ["full", "closed", "frameless"])
@pytest.mark.parametrize("how", HOWS[:1])
def test_the_step_ends(how, condition):
    result = launch.run_until_a_rank_fails("adverse_exception.py", how, condition, 600)
    assert "this rank fails on purpose" in result.stderr
