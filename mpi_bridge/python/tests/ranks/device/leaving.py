# SPDX-License-Identifier: Apache-2.0
"""A process whose device does not finish leaves the step after a while and says so."""

import numpy as np
from device.cuda_driver import Gate, InterfaceArray, new_stream, use_device

import mpi_bridge
from mpi_bridge import engine, on_device
from mpi_bridge.engine import Kind

mpi_bridge.init()
use_device(mpi_bridge.local_rank())
stream = new_stream()
array = InterfaceArray(np.ones(1000, "f4"), stream)
engine.submit(Kind.ALLREDUCE, array, array).finish()
gate = Gate(stream)
engine.submit(Kind.ALLREDUCE, array, array).finish()
on_device.LEAVING_SECONDS = 1.0
on_device.finish()
print("left", flush=True)
gate.open()
