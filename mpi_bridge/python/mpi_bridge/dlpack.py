# SPDX-License-Identifier: Apache-2.0
"""DLPack: what an object says about its memory, read from its capsule, and capsules of our own.

An object's capsule is never consumed: it keeps its tensor, and frees it when it is deleted. Only a
producer that knows DLPack 1.0 can say that its memory may be written; all others count as
read-only, because JAX, for instance, hands out memory that its program must not change.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from .errors import InvalidArgumentError

HOST = 1  # kDLCPU
CUDA = 2  # kDLCUDA

_NEWEST = (1, 0)
_READ_ONLY = 1
_IS_COPY = 2

_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.argtypes = [ctypes.py_object]
_capsule_name.restype = ctypes.c_char_p
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer.restype = ctypes.c_void_p


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_new_capsule.restype = ctypes.py_object

_libc = ctypes.CDLL(None)
_allocate = _libc.malloc
_allocate.argtypes = [ctypes.c_size_t]
_allocate.restype = ctypes.c_void_p


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """DLManagedTensor, followed by the length of its only dimension."""

    _fields_ = (
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("length", ctypes.c_int64),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


@dataclass(frozen=True)
class Description:
    """One tensor; `type_code` and `bits` are DLPack's, and `capsule` keeps the memory alive."""

    address: int
    shape: tuple[int, ...]
    is_contiguous: bool  # in row-major order
    type_code: int
    bits: int
    lanes: int
    readonly: bool
    capsule: Any


def device_of(source: Any) -> int:
    """Return DLPack's number for the kind of device that the object's memory is on."""
    if not hasattr(source, "__dlpack_device__"):
        return HOST
    return int(source.__dlpack_device__()[0])


def cuda_ordinal_of(source: Any) -> int | None:
    """Return CUDA's ordinal of the object's device, if it has one and says so."""
    if not hasattr(source, "__dlpack_device__"):
        return None
    kind, ordinal = source.__dlpack_device__()
    return int(ordinal) if int(kind) == CUDA else None


def capsule_of(address: int, nbytes: int, device: tuple[int, int]) -> Any:
    """Return a capsule that describes bytes which somebody else keeps alive.

    Its consumer frees the description with free(), so that no code of Python has to run then.
    """
    block = _allocate(ctypes.sizeof(_Managed))
    if not block:
        raise MemoryError
    managed = _Managed.from_address(block)
    managed.length = nbytes
    managed.tensor = _Tensor(
        data=address or None,
        device_type=device[0],
        device_id=device[1],
        ndim=1,
        code=1,
        bits=8,
        lanes=1,
        shape=ctypes.cast(block + _Managed.length.offset, ctypes.POINTER(ctypes.c_int64)),
    )
    managed.deleter = ctypes.cast(_libc.free, ctypes.c_void_p)
    return _new_capsule(block, b"dltensor", None)


def describe(source: Any, stream: int | None = None) -> Description:
    """Return what the object says. For CUDA memory, the producer makes `stream` wait for its work.

    `stream` is DLPack's number: 1 is the legacy default stream.
    """
    options = {} if stream is None else {"stream": stream}
    try:
        try:
            capsule = source.__dlpack__(max_version=_NEWEST, **options)
        except TypeError:
            # A producer from before DLPack 1.0 does not know the argument.
            capsule = source.__dlpack__(**options)
    except (BufferError, TypeError) as error:
        kind = type(source)
        raise InvalidArgumentError(
            f"cannot use this {kind.__module__}.{kind.__qualname__} as a buffer: {error}"
        ) from error
    name = _capsule_name(capsule)
    if name == b"dltensor_versioned":
        managed = _Versioned.from_address(_capsule_pointer(capsule, name))
        # Only the beginning is the same in every version.
        if managed.major != _NEWEST[0]:
            raise InvalidArgumentError(
                f"cannot read DLPack {managed.major}.{managed.minor}; this package knows 1.x"
            )
        return _description(managed.tensor, capsule, bool(managed.flags & (_READ_ONLY | _IS_COPY)))
    tensor = _Tensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    return _description(tensor, capsule, True)


def _description(tensor: _Tensor, capsule: Any, readonly: bool) -> Description:
    return Description(
        address=(tensor.data or 0) + tensor.byte_offset if tensor.data else 0,
        shape=tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else (),
        is_contiguous=_is_contiguous(tensor),
        type_code=tensor.code,
        bits=tensor.bits,
        lanes=tensor.lanes,
        readonly=readonly,
        capsule=capsule,
    )


def _is_contiguous(tensor: _Tensor) -> bool:
    if not tensor.strides:
        return True
    expected = 1
    for axis in reversed(range(tensor.ndim)):
        if tensor.shape[axis] > 1 and tensor.strides[axis] != expected:
            return False
        expected *= tensor.shape[axis]
    return True
