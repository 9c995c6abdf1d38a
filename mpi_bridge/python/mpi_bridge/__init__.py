# SPDX-License-Identifier: Apache-2.0
"""Collective operations for the ranks of one job step, over libmpi_bridge.

The horovod packages beside this one are written on top of it; use this one directly for plain
buffers, arrays and tensors::

    import mpi_bridge, numpy
    mpi_bridge.init()
    x = numpy.full(4, mpi_bridge.rank(), "f4")
    mpi_bridge.allreduce(x, op=mpi_bridge.Op.AVERAGE)

The functions here block and are matched by the order of calls; those of mpi_bridge.engine are
asynchronous and matched by name.
"""

import sys

# An older Python comes to this line if it can parse this file, so nothing here may need a newer
# one. The node's packages are put before those of a container's image, whatever its Python is.
if sys.version_info < (3, 9):  # noqa: UP036
    raise ImportError(
        "mpi_bridge needs Python 3.9 or newer; this is {}.{}.{} ({}). BATCHAI_INJECT=0 among the "
        "job's environmentVariables keeps the image's own packages".format(
            *sys.version_info[:3], sys.executable
        )
    )

from . import engine, process_sets
from .buffer import Buffer, buffer_of, writable_buffer_of
from .collectives import (
    allgather,
    allgatherv,
    allreduce,
    alltoall,
    alltoallv,
    barrier,
    broadcast,
    gather_integers,
    reduce_scatter,
)
from .datatype import DataType, Op
from .errors import (
    BootstrapError,
    CollectiveTimeoutError,
    ForkedError,
    InternalError,
    InvalidArgumentError,
    LibraryNotFoundError,
    MismatchError,
    MpiBridgeError,
    NotInitializedError,
    PeerLostError,
)
from .objects import allgather_object, broadcast_object
from .world import (
    abort,
    cross_rank,
    cross_size,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    rank,
    set_timeout,
    shutdown,
    size,
    version,
)

__version__ = "0.1.0"

__all__ = [
    "BootstrapError",
    "Buffer",
    "CollectiveTimeoutError",
    "DataType",
    "ForkedError",
    "InternalError",
    "InvalidArgumentError",
    "LibraryNotFoundError",
    "MismatchError",
    "MpiBridgeError",
    "NotInitializedError",
    "Op",
    "PeerLostError",
    "abort",
    "allgather",
    "allgather_object",
    "allgatherv",
    "allreduce",
    "alltoall",
    "alltoallv",
    "barrier",
    "broadcast",
    "broadcast_object",
    "buffer_of",
    "cross_rank",
    "cross_size",
    "engine",
    "gather_integers",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "process_sets",
    "rank",
    "reduce_scatter",
    "set_timeout",
    "shutdown",
    "size",
    "version",
    "writable_buffer_of",
]
