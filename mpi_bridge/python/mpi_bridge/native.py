# SPDX-License-Identifier: Apache-2.0
"""The C functions of the headers mpi_bridge*.h, and exceptions for their statuses.

The library is loaded on first use, so that importing this package needs no native code. Calls
release the interpreter lock while they wait for other ranks.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

from . import library, signals
from .errors import error_for

_SIZE = ctypes.c_size_t
_POINTER = ctypes.c_void_p
_SIZES = ctypes.POINTER(ctypes.c_size_t)
_INT = ctypes.c_int
_INTS = ctypes.POINTER(ctypes.c_int)
_HANDLE = ctypes.c_int64

# Argument types by function name. All of these functions return an mpib_status.
_STATUS_FUNCTIONS = {
    "mpib_init": [],
    "mpib_init_with": [_POINTER],
    "mpib_finalize": [],
    "mpib_allreduce": [_POINTER, _POINTER, _SIZE, _INT, _INT],
    "mpib_broadcast": [_POINTER, _SIZE, _INT],
    "mpib_allgather": [_POINTER, _POINTER, _SIZE],
    "mpib_allgatherv": [_POINTER, _SIZE, _POINTER, _SIZES, _SIZES],
    "mpib_reduce_scatter": [_POINTER, _POINTER, _SIZES, _INT, _INT],
    "mpib_alltoall": [_POINTER, _POINTER, _SIZE],
    "mpib_alltoallv": [_POINTER, _SIZES, _SIZES, _POINTER, _SIZES, _SIZES],
    "mpib_barrier": [],
    "mpib_set_timeout": [ctypes.c_double],
    "mpib_submit": [_POINTER, _POINTER],
    "mpib_wait": [_HANDLE, ctypes.c_double],
    "mpib_get_result": [_HANDLE, _POINTER],
    "mpib_release": [_HANDLE],
    "mpib_call": [_POINTER],
    "mpib_join": [_POINTER],
    "mpib_set_device": [_INT],
    "mpib_process_set_add": [_INTS, _INT, _POINTER],
    "mpib_process_set_remove": [_INT],
    "mpib_process_set_open": [_INTS, _INT, _INT],
    "mpib_process_set_close": [_INT],
    "mpib_message_send": [_POINTER, _POINTER],
    "mpib_message_receive": [_POINTER, _POINTER],
    "mpib_message_wait": [_HANDLE, ctypes.c_double],
    "mpib_message_release": [_HANDLE],
    "mpib_timeline_start": [ctypes.c_char_p],
    "mpib_timeline_stop": [],
    "mpib_read_counters": [_POINTER],
}

# These return a number.
_INT_FUNCTIONS = {
    "mpib_initialized": [],
    "mpib_rank": [],
    "mpib_size": [],
    "mpib_local_rank": [],
    "mpib_local_size": [],
    "mpib_cross_rank": [],
    "mpib_cross_size": [],
    "mpib_is_homogeneous": [],
    "mpib_poll": [_HANDLE],
    "mpib_message_poll": [_HANDLE],
    "mpib_message_peer": [_HANDLE],
    "mpib_process_set_rank": [_INT],
    "mpib_process_set_size": [_INT],
    "mpib_process_set_ranks": [_INT, _INTS, _INT],
    "mpib_process_set_ids": [_INTS, _INT],
    "mpib_process_set_is_free": [_INT],
    "mpib_device": [],
    "mpib_device_reached": [ctypes.c_int64],
    "mpib_cuda_installed": [],
    "mpib_nccl_version": [],
}


@functools.cache
def functions() -> ctypes.CDLL:
    """Return the loaded library with every function's types set."""
    loaded = library.load(Path(__file__).resolve().parent)
    for name, argument_types in {**_STATUS_FUNCTIONS, **_INT_FUNCTIONS}.items():
        function = getattr(loaded, name)
        function.argtypes = argument_types
        function.restype = _INT
    loaded.mpib_device_mark.argtypes = [_HANDLE]
    loaded.mpib_device_mark.restype = ctypes.c_int64
    loaded.mpib_alloc.argtypes = [_SIZE]
    loaded.mpib_alloc.restype = _POINTER
    loaded.mpib_free.argtypes = [_POINTER]
    loaded.mpib_free.restype = None
    loaded.mpib_last_error.argtypes = []
    loaded.mpib_last_error.restype = ctypes.c_char_p
    loaded.mpib_status_name.argtypes = [_INT]
    loaded.mpib_status_name.restype = ctypes.c_char_p
    loaded.mpib_version.argtypes = []
    loaded.mpib_version.restype = ctypes.c_char_p
    loaded.mpib_abort.argtypes = [_INT, ctypes.c_char_p]
    loaded.mpib_abort.restype = None
    loaded.mpib_set_wait_hook.argtypes = [_POINTER, _POINTER]
    loaded.mpib_set_wait_hook.restype = None
    return loaded


def call(name: str, *arguments: object) -> None:
    """Call a function that returns a status; raise the matching exception if it is not MPIB_OK."""
    native = functions()
    status = getattr(native, name)(*arguments)
    if status != 0:
        if status == signals.INTERRUPTED:
            signals.raise_exception()
        text = native.mpib_last_error().decode(errors="replace")
        raise error_for(status, native.mpib_status_name(status).decode(), text)


def size_array(values: list[int]) -> ctypes.Array:
    """Return a C array of size_t."""
    return (ctypes.c_size_t * len(values))(*values)
