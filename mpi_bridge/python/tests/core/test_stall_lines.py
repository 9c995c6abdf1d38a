# SPDX-License-Identifier: Apache-2.0
"""The report of operations that ranks did not submit."""

import collections
import re

import launch
import pytest


# Each rank reports at 1, 2 and 4 seconds, and every line has the time in it.
@pytest.mark.parametrize("how", [how for how in launch.LAUNCHERS if how != "1 rank"])
def test_no_line_is_printed_twice(how):
    result = launch.run("stalled.py", how, MPI_BRIDGE_STALL_SECONDS="1")
    assert result.returncode == 0, result.stderr
    lines = re.findall(r"^mpi_bridge: rank \d+: 1 operation has waited .*$", result.stderr, re.M)
    ranks = {line.split()[2] for line in lines}
    assert len(ranks) >= 2, result.stderr
    assert max(collections.Counter(lines).values()) == 1, result.stderr
