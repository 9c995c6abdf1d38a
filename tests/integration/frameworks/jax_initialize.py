# SPDX-License-Identifier: GPL-2.0-or-later
"""Adds up one number of each process through jax.distributed.initialize() without arguments."""

from __future__ import annotations

import os
import socket

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils


def main() -> None:
    """Print what the processes have in total, and who this process is."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize()
    process, count = jax.process_index(), jax.process_count()
    # A power of two for each process: the sum tells whether each of them was there once.
    numbers = multihost_utils.process_allgather(jnp.array(2**process))
    # Nobody listens on the reserved port unless the coordinator does.
    place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    socket.create_connection(place, timeout=10).close()
    print(
        f"process {process}/{count} on {os.environ['SLURMD_NODENAME']}: sum {int(numbers.sum())},"
        f" {jax.device_count()} devices",
        flush=True,
    )
    multihost_utils.sync_global_devices("all have printed")


main()
