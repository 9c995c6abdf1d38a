# SPDX-License-Identifier: Apache-2.0
"""mpi_bridge on JAX's arrays at 1, 2 and 4 ranks; the program runs once for each number."""

import launch
import pytest

pytest.importorskip("jax")


@launch.checks("jax_arrays.py")
def test_jax_arrays(how, name):
    launch.assert_passed(("jax_arrays.py",), how, name)
