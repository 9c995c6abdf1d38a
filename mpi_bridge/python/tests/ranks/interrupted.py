# SPDX-License-Identifier: Apache-2.0
"""A signal handler raises on rank 0 in a collective that rank 1 never comes to.

Rank 0 must get the exception, and all ranks must be able to end.
"""

import signal

import numpy as np

import mpi_bridge
from mpi_bridge import engine
from mpi_bridge.engine import Kind

mpi_bridge.init()
numbers = np.ones(4, "f4")


def call(name):
    engine.call(Kind.ALLREDUCE, numbers, numbers, name=name)


for _ in range(20):
    call("planned")


def handler(_number, _frame):
    # Not again while the exception is handled.
    signal.setitimer(signal.ITIMER_REAL, 0)
    raise KeyboardInterrupt


if mpi_bridge.rank() == 0:
    signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1)
        call("planned")
    except KeyboardInterrupt:
        print(f"interrupted one of {mpi_bridge.size()}", flush=True)
else:
    try:
        call("another one")
    except mpi_bridge.PeerLostError as error:
        print(f"rank {mpi_bridge.rank()}: {error}", flush=True)
