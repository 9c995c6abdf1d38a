# SPDX-License-Identifier: Apache-2.0
"""Runs torch_distributed.py with the backend in C++ on even ranks and the one in Python on odd."""

import os
import runpy
from pathlib import Path

import mpi_bridge

mpi_bridge.init()
os.environ["MPI_BRIDGE_TORCH_BACKEND"] = "python" if mpi_bridge.rank() % 2 else "native"
runpy.run_path(str(Path(__file__).parent / "torch_distributed.py"), run_name="__main__")
