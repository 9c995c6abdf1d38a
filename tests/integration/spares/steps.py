# SPDX-License-Identifier: GPL-2.0-or-later
"""Goes on from its checkpoint. At step 5 of the first start, rank 1 does as WAY says."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import mpi_bridge

place = Path(os.environ["PLACE"])
checkpoint = place / "checkpoint"
mpi_bridge.init()
rank, size = mpi_bridge.rank(), mpi_bridge.size()
restarts = os.environ.get("SLURM_RESTART_COUNT", "0")
step = int(checkpoint.read_text()) if checkpoint.exists() else 0
node = os.environ["SLURMD_NODENAME"]
print(f"start {restarts}: rank {rank} of {size} on {node} from {step}", flush=True)
stop = False
while not stop:
    ones = np.ones(1000, "f4")
    # All ranks end after the same step, whenever each of them sees the file.
    ones[-1] = (place / "stop").exists()
    mpi_bridge.allreduce(ones)
    stop = ones[-1] > 0
    step += 1
    if rank == 0:
        checkpoint.write_text(str(step))
        with (place / "times").open("a") as times:
            times.write(f"{time.time():.3f} {restarts} {step} {ones[0]:.0f}\n")
    way = os.environ["WAY"]
    if rank == 1 and step >= 5 and (way == "always" or restarts == "0"):
        if way in ("exit", "always"):
            sys.exit(75)
        if way == "pause":
            signal.pause()
    time.sleep(0.1)
