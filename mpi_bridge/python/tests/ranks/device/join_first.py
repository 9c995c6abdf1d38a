# SPDX-License-Identifier: Apache-2.0
"""A rank that joins before it has had a tensor takes part with its device, and keeps it.

Breaks when such a rank takes part from host memory, so that its later arrays are refused, or the
data of all ranks goes through host memory for good. Runs on a GPU, or on the stand-in for one.
"""

import check
import numpy as np
import rows
from device.cuda_driver import InterfaceArray, new_stream, use_device

import mpi_bridge
from mpi_bridge import engine
from mpi_bridge.engine import Kind

mpi_bridge.init()
RANK, SIZE = mpi_bridge.rank(), mpi_bridge.size()
DEVICE = use_device(mpi_bridge.local_rank())
STREAM = new_stream()


def _sum(present):
    array = InterfaceArray(np.ones(1000, "f4"), STREAM)
    engine.submit(Kind.ALLREDUCE, array, array, name="present").finish()
    check.equal("sum", array.get(), np.full(1000, present, "f4"))


def check_a_rank_that_joins_first_keeps_its_device():
    for _ in range(3 if RANK == 0 else 0):
        _sum(1)
    check.equal("last", engine.join(), 0)
    for _ in range(3):
        _sum(SIZE)
    check.equal("device", engine.device(), DEVICE)


if __name__ == "__main__":
    rows.run(globals())
