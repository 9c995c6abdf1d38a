# SPDX-License-Identifier: Apache-2.0
"""A rank that dies of an exception ends the step, also under adverse conditions."""

import launch
import pytest

HOWS = [how for how in launch.LAUNCHERS if how != "1 rank"]


@pytest.mark.parametrize("condition", ["full", "closed", "frameless"])
@pytest.mark.parametrize("how", HOWS[:1])
def test_the_step_ends(how, condition):
    # run() raises an error if the program is still there after this time.
    result = launch.run(
        "adverse_exception.py",
        how,
        seconds=600,
        arguments=[condition],
        MPI_BRIDGE_TIMEOUT_SECONDS="600",
        MPI_BRIDGE_STALL_SHUTDOWN_SECONDS="600",
    )
    assert result.returncode != 0
    assert "this rank fails on purpose" in result.stderr
    assert "although a rank is missing" not in result.stderr
