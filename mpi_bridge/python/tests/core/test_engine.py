# SPDX-License-Identifier: Apache-2.0
"""mpi_bridge.engine at 1, 2 and 4 ranks; the program runs once for each number, with all checks."""

import launch


@launch.checks("engine_rows.py")
def test_engine(how, name):
    launch.assert_passed(("engine_rows.py",), how, name)
