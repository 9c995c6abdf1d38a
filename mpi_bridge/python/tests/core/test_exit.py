# SPDX-License-Identifier: Apache-2.0
"""A script that ends without shutdown() ends in silence, whatever it still holds."""

import subprocess
import sys
import textwrap

import pytest

HELD = {
    "shared memory": "held = memory.allocate(4096)",
    "an array on shared memory": "held = numpy.frombuffer(memory.allocate(4096), 'f4')",
    "an operation": "held = engine.submit(Kind.ALLREDUCE, numbers, numbers, name='x')",
    "an operation on shared memory": """
        space = numpy.frombuffer(memory.allocate(4096), 'f4')
        held = engine.submit(Kind.ALLREDUCE, space, space, name='x')
    """,
    "a view of a buffer": "held = mpi_bridge.buffer_of(bytearray(8))",
}


@pytest.mark.parametrize("what", HELD)
def test_a_script_that_holds(what):
    pytest.importorskip("numpy")
    # Python forgets the names of this module after those of later ones.
    script = f"""
import os, numpy, mpi_bridge
from mpi_bridge import engine, memory
from mpi_bridge.engine import Kind
mpi_bridge.init()
numbers = numpy.ones(4, "f4")
{textwrap.dedent(HELD[what])}
os.held = held
"""
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
