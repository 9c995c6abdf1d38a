# SPDX-License-Identifier: Apache-2.0
"""mpi_bridge.engine on arrays of CuPy and JAX on the device, where these are installed."""

import importlib
import os

# JAX would take most of the memory, which several ranks share.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import check
import numpy as np
import rows
import torch
from device.training import device_of

import mpi_bridge
from mpi_bridge import engine
from mpi_bridge.engine import Kind

mpi_bridge.init()
DEVICE = device_of(mpi_bridge.local_rank())
RANK, SIZE = mpi_bridge.rank(), mpi_bridge.size()
SUM = np.full(5000, SIZE * (SIZE + 1) / 2, "f4")


def library(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise check.Skipped(f"{name} is not installed ({error})") from None


def check_cupy():
    if DEVICE.type != "cuda":
        raise check.Skipped("there is no GPU")
    cupy = library("cupy")
    with cupy.cuda.Device(DEVICE.index):
        for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
            with stream:
                array = cupy.full(5000, RANK + 1, "f4")
                received = cupy.zeros_like(array)
                engine.submit(Kind.ALLREDUCE, array, received).finish()
                doubled = 2 * received
                check.equal("sum", cupy.asnumpy(doubled), 2 * SUM)


def check_jax():
    jax = library("jax")
    devices = jax.devices("gpu" if DEVICE.type == "cuda" else "cpu")
    array = jax.device_put(np.full(5000, RANK + 1, "f4"), devices[DEVICE.index or 0])
    received = torch.zeros(5000, device=DEVICE)
    engine.submit(Kind.ALLREDUCE, array, received).finish()
    check.equal("sum", received.cpu(), SUM)
    host = np.asarray(array)
    check.equal("what was sent", host, np.full(5000, RANK + 1, "f4"))


if __name__ == "__main__":
    rows.run(globals())
