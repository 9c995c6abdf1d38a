# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts in an elastic state until the file PLACE/stop is there, some times a second.

For each number, each process appends "TIME PROCESS RANKS NUMBER" to a file below PLACE that has the
name of its task.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np
from horovod.common import basics
from horovod.common.elastic import ObjectState, run_fn
from horovod.common.host_updates import of_rank_0
from mpi_bridge.objects import broadcast_object

import mpi_bridge


def count(state: ObjectState) -> None:
    # All ranks must see the end at the same number.
    while not of_rank_0(int((place / "stop").exists())):
        total = np.ones(100_000, "f4")
        mpi_bridge.allreduce(total)
        assert total[0] == basics.size()
        state.number += 1
        with own.open("a") as lines:
            lines.write(f"{time.time():.3f} {os.getpid()} {basics.size()} {state.number}\n")
        time.sleep(0.05)
        if state.number % 4 == 0:
            state.commit()
        if (place / f"raise.{os.environ['SLURM_PROCID']}").exists():
            (place / f"raise.{os.environ['SLURM_PROCID']}").unlink()
            raise ValueError("this rank alone goes wrong")


def reset() -> None:
    basics.shutdown()
    basics.init()


place = Path(sys.argv[1])
own = place / os.environ["SLURM_PROCID"]
basics.init()
state = ObjectState(broadcast_object, basics.rank, number=0)
run_fn(count, reset)(state)
print(f"task {os.environ['SLURM_PROCID']} ended at {state.number}", flush=True)
