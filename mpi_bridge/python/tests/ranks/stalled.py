# SPDX-License-Identifier: Apache-2.0
"""Each rank waits for an operation that no other one submits, until both have been reported."""

import contextlib

import numpy as np

import mpi_bridge
from mpi_bridge import engine
from mpi_bridge.engine import Kind

mpi_bridge.init()
names = [f"of {rank}" for rank in range(mpi_bridge.size())]
handles = {}


def submit(name):
    numbers = np.ones(4, "f4")
    handles[name] = engine.submit(Kind.ALLREDUCE, numbers, numbers, name=name)


submit(names[mpi_bridge.rank()])
with contextlib.suppress(mpi_bridge.CollectiveTimeoutError):
    handles[names[mpi_bridge.rank()]].wait(4.5)
for name in names:
    if name not in handles:
        submit(name)
for handle in handles.values():
    handle.finish()
print(f"passed on {mpi_bridge.size()} ranks", flush=True)
