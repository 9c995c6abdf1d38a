# SPDX-License-Identifier: Apache-2.0
"""Makes the packages and the test helpers importable, and compiles the backend in C++.

torch.distributed runs on that one, unless a test or the environment asks for the one in Python.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

BACKEND = "MPI_BRIDGE_TORCH_BACKEND"


@pytest.fixture(scope="session", autouse=True)
def _native_backend():
    if find_spec("torch") is None or BACKEND in os.environ:
        return
    from mpi_bridge import torch_native

    torch_native.build()
    os.environ[BACKEND] = "native"
