#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Fits a line with mpi4py: each rank has points of its own, and gradients are added up.

The points are generated.
"""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

POINTS = 1000
SLOPE, OFFSET = 3.0, -1.0


def main() -> None:
    """Fit, and print the loss over the points of all ranks before and after."""
    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    x = np.random.default_rng(rank).uniform(-1, 1, POINTS)
    y = SLOPE * x + OFFSET

    line = np.zeros(2)
    losses = []
    for _ in range(8):
        error = line[0] * x + line[1] - y
        mine = np.array([(error * x).mean(), error.mean(), (error**2).mean()])
        everyone = np.empty_like(mine)
        comm.Allreduce(mine, everyone, op=MPI.SUM)
        everyone /= size
        line -= everyone[:2]
        losses.append(everyone[2])
    print(
        f"rank {rank} of {size} on {MPI.Get_processor_name()}:"
        f" loss {losses[0]:.6f} -> {losses[-1]:.6f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
