# SPDX-License-Identifier: Apache-2.0
"""Where the elements of an object are in memory, found without copying them.

Supported objects are torch tensors, numpy arrays, objects with the buffer protocol (bytes,
bytearray, memoryview, array.array), and, as read-only sources, DLPack objects. The elements must be
contiguous, in row-major order and in host memory; anything else is refused, because a hidden copy
of a receive buffer would lose the result. Only the engine accepts CUDA tensors.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any

from . import datatype
from .datatype import DataType
from .errors import InvalidArgumentError

_DLPACK_HOST = 1  # kDLCPU


@dataclass(frozen=True)
class Buffer:
    """A contiguous range of memory. `owner` keeps it alive as long as this value lives."""

    address: int
    nbytes: int
    itemsize: int
    datatype: DataType | None  # None: can be moved but not reduced
    readonly: bool
    owner: Any
    on_device: bool = False  # CUDA memory; the host must not access the address

    @property
    def count(self) -> int:
        """The number of elements."""
        return self.nbytes // self.itemsize if self.itemsize else 0


class _PyBuffer(ctypes.Structure):
    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_PYBUF_C_CONTIGUOUS_WITH_FORMAT = 0x0020 | 0x0010 | 0x0008 | 0x0004

_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_get_buffer.restype = ctypes.c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_PyBuffer)]
_release_buffer.restype = None
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer.restype = ctypes.c_void_p


class _HeldView:
    """An acquired buffer-protocol view, released with this object."""

    def __init__(self, source: Any) -> None:
        self.view = _PyBuffer()
        self._held = False
        _get_buffer(source, ctypes.byref(self.view), _PYBUF_C_CONTIGUOUS_WITH_FORMAT)
        self._held = True

    def __del__(self) -> None:
        if self._held:
            _release_buffer(ctypes.byref(self.view))


class _DLTensor(ctypes.Structure):
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


def _describe(source: Any) -> str:
    return f"{type(source).__module__}.{type(source).__qualname__}"


def _refuse(source: Any, reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"cannot use this {_describe(source)} as a buffer: {reason}")


def _from_torch(tensor: Any, allow_device: bool) -> Buffer:
    on_device = tensor.device.type == "cuda" and allow_device
    if tensor.device.type != "cpu" and not on_device:
        raise _refuse(tensor, f"it lies on {tensor.device}; buffers are host memory")
    if not tensor.is_contiguous():
        raise _refuse(tensor, "it is not contiguous; pass tensor.contiguous()")
    itemsize = tensor.element_size()
    name = str(tensor.dtype).rpartition(".")[2]
    return Buffer(
        address=tensor.data_ptr(),
        nbytes=tensor.numel() * itemsize,
        itemsize=itemsize,
        datatype=datatype.from_name(name),
        readonly=False,
        owner=tensor,
        on_device=on_device,
    )


def _from_numpy(array: Any) -> Buffer:
    if not array.flags["C_CONTIGUOUS"]:
        raise _refuse(array, "it is not contiguous; pass numpy.ascontiguousarray(array)")
    native_order = array.dtype.isnative
    return Buffer(
        address=array.__array_interface__["data"][0],
        nbytes=array.nbytes,
        itemsize=array.dtype.itemsize,
        datatype=datatype.from_name(array.dtype.name) if native_order else None,
        readonly=not array.flags["WRITEABLE"],
        owner=array,
    )


def _from_buffer_protocol(source: Any) -> Buffer:
    try:
        held = _HeldView(source)
    except (BufferError, ValueError) as error:
        raise _refuse(source, str(error)) from error
    view = held.view
    return Buffer(
        address=view.buf or 0,
        nbytes=view.len,
        itemsize=view.itemsize,
        datatype=datatype.from_format((view.format or b"B").decode()),
        readonly=bool(view.readonly),
        owner=held,
    )


def _is_contiguous(tensor: _DLTensor) -> bool:
    if not tensor.strides:
        return True
    expected = 1
    for axis in reversed(range(tensor.ndim)):
        if tensor.shape[axis] > 1 and tensor.strides[axis] != expected:
            return False
        expected *= tensor.shape[axis]
    return True


def _from_dlpack(source: Any) -> Buffer:
    if hasattr(source, "__dlpack_device__") and source.__dlpack_device__()[0] != _DLPACK_HOST:
        raise _refuse(source, "it lies on an accelerator; buffers are host memory")
    # The capsule is never renamed to "used_dltensor", so it frees its tensor itself.
    capsule = source.__dlpack__()
    tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    if not _is_contiguous(tensor):
        raise _refuse(source, "it is not contiguous in row-major order")
    count = 1
    for axis in range(tensor.ndim):
        count *= tensor.shape[axis]
    itemsize = (tensor.bits * tensor.lanes + 7) // 8
    return Buffer(
        address=(tensor.data or 0) + tensor.byte_offset,
        nbytes=count * itemsize,
        itemsize=itemsize,
        datatype=datatype.from_dlpack(tensor.code, tensor.bits, tensor.lanes),
        readonly=True,
        owner=(source, capsule),
    )


def _is_numpy_array(source: Any) -> bool:
    # An object can be a numpy array only if numpy is already imported. numpy scalars would pass a
    # test by attributes, but their array interface points to a temporary copy; they use the buffer
    # protocol.
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(source, numpy.ndarray)


def _is_torch_tensor(source: Any) -> bool:
    return hasattr(source, "data_ptr") and hasattr(source, "element_size")


def buffer_of(source: Any, allow_device: bool = False) -> Buffer:
    """Return the memory of `source` for reading; CUDA memory only if the caller allows it."""
    if isinstance(source, Buffer):
        return source
    if _is_torch_tensor(source):
        return _from_torch(source, allow_device)
    if _is_numpy_array(source):
        return _from_numpy(source)
    try:
        memoryview(source).release()
    except TypeError:
        if hasattr(source, "__dlpack__"):
            return _from_dlpack(source)
        raise _refuse(
            source, "it is no tensor, array, DLPack object or buffer-protocol object"
        ) from None
    return _from_buffer_protocol(source)


def writable_buffer_of(source: Any, allow_device: bool = False) -> Buffer:
    """Return the memory of `source` for writing; refuse read-only objects."""
    buffer = buffer_of(source, allow_device)
    if buffer.readonly:
        raise _refuse(source, "it is read-only")
    return buffer
