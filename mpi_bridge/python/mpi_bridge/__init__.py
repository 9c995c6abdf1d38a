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
