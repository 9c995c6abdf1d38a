# SPDX-License-Identifier: GPL-2.0-or-later
"""Rank 1 does not come: at first to an operation of the engine, then to a blocking call."""

import os
import time
from pathlib import Path

import numpy as np

import mpi_bridge
from mpi_bridge import engine

marks = Path(os.environ["MARKS"])
numbers = np.ones(4, "f4")


def be_late() -> None:
    time.sleep(3000)


mpi_bridge.init()
(marks / f"there-{mpi_bridge.rank()}").touch()
if mpi_bridge.rank() == 1:
    while not (marks / "go").exists():
        time.sleep(0.1)
engine.call(engine.Kind.ALLREDUCE, numbers, numbers, name="gradient")
if mpi_bridge.rank() == 1:
    be_late()
mpi_bridge.allreduce(numbers)
