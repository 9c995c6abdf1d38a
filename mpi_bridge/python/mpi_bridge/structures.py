# SPDX-License-Identifier: Apache-2.0
"""The enumeration and the structs of mpi_bridge_engine.h and mpi_bridge_messages.h."""

from __future__ import annotations

import ctypes
import enum

WORLD = 0
"""The process set of all ranks."""


class Kind(enum.IntEnum):
    """What an operation does."""

    ALLREDUCE = 0
    ALLGATHER = 1
    BROADCAST = 2
    REDUCE_SCATTER = 3
    ALLTOALL = 4
    REDUCE = 5
    BARRIER = 6
    JOIN = 7


class OperationStruct(ctypes.Structure):
    """mpib_operation."""

    _fields_ = (
        ("struct_bytes", ctypes.c_size_t),
        ("kind", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("send", ctypes.c_void_p),
        ("recv", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("dimensions", ctypes.c_int),
        ("datatype", ctypes.c_int),
        ("op", ctypes.c_int),
        ("root", ctypes.c_int),
        ("prescale", ctypes.c_double),
        ("postscale", ctypes.c_double),
        ("splits", ctypes.POINTER(ctypes.c_int64)),
        ("process_set", ctypes.c_int),
        ("group", ctypes.c_char_p),
        ("group_size", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("recv_bytes", ctypes.c_size_t),
        ("place", ctypes.c_int),
    )


class ResultStruct(ctypes.Structure):
    """mpib_result."""

    _fields_ = (
        ("struct_bytes", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("rows", ctypes.c_int64),
        ("received_rows", ctypes.POINTER(ctypes.c_int64)),
        ("members", ctypes.c_int),
        ("last_joined", ctypes.c_int),
    )


class PythonStruct(ctypes.Structure):
    """mpib_python."""

    _fields_ = (
        ("main_thread", ctypes.c_ulong),
        ("ensure", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("check_signals", ctypes.c_void_p),
        ("fetch", ctypes.c_void_p),
        ("type", ctypes.c_void_p),
        ("value", ctypes.c_void_p),
        ("traceback", ctypes.c_void_p),
    )


class MessageStruct(ctypes.Structure):
    """mpib_message."""

    _fields_ = (
        ("struct_bytes", ctypes.c_size_t),
        ("peer", ctypes.c_int),
        ("channel", ctypes.c_char_p),
        ("tag", ctypes.c_int64),
        ("memory", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
    )


GIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
"""mpib_give."""

EXCHANGE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_double,
    GIVE,
    ctypes.c_void_p,
)
"""mpib_exchange."""


class MeetingStruct(ctypes.Structure):
    """mpib_meeting."""

    _fields_ = (
        ("struct_bytes", ctypes.c_size_t),
        ("rank", ctypes.c_int),
        ("size", ctypes.c_int),
        ("context", ctypes.c_void_p),
        ("exchange", EXCHANGE),
    )


class CountersStruct(ctypes.Structure):
    """mpib_counters."""

    _by_kind = ("operations", "failures", "bytes", "collectives", "bus_bytes")
    _fields_ = (
        ("struct_bytes", ctypes.c_size_t),
        *((name, ctypes.c_uint64 * len(Kind)) for name in _by_kind),
        ("transfer_nanoseconds", ctypes.c_uint64 * len(Kind)),
        ("queued_nanoseconds", ctypes.c_uint64),
        ("negotiation_nanoseconds", ctypes.c_uint64),
        ("pack_nanoseconds", ctypes.c_uint64),
        ("unpack_nanoseconds", ctypes.c_uint64),
        ("negotiation_rounds", ctypes.c_uint64),
        ("planned_buckets", ctypes.c_uint64),
        ("plans_made", ctypes.c_uint64),
        ("plans_broken", ctypes.c_uint64),
        ("inline_buckets", ctypes.c_uint64),
    )
