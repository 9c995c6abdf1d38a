# SPDX-License-Identifier: Apache-2.0
"""Where the elements of an object are in memory, found without copying them.

Supported objects are torch tensors, numpy arrays, objects with the buffer protocol (bytes,
bytearray, memoryview, array.array), and DLPack objects, such as JAX's arrays. The elements must be
contiguous, in row-major order and in host memory, and the memory must hold their values; anything
else is refused, because a hidden copy of a receive buffer would lose the result. Only the engine
accepts CUDA memory: torch tensors, and arrays with `__cuda_array_interface__` or DLPack, such as
CuPy's.
"""

from __future__ import annotations

import ctypes
import math
import re
import sys
from dataclasses import dataclass
from typing import Any, Callable

from . import cuda_arrays, datatype, dlpack
from .datatype import DataType
from .errors import InvalidArgumentError


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
    stream: int | None = None  # the CUDA stream in whose order its owner uses it, if that is known
    shape: tuple[int, ...] | None = None  # if only the object's own protocol tells it
    device: int | None = None  # CUDA's ordinal, if the object tells it
    # Whether its owner gives CUDA memory back in the order of streams, and not at once.
    in_stream_order: bool = False

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


_OBJECTS = "its elements are references to objects of this process"

_PYBUF_C_CONTIGUOUS_WITH_FORMAT = 0x0020 | 0x0010 | 0x0008 | 0x0004

_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_get_buffer.restype = ctypes.c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_PyBuffer)]
_release_buffer.restype = None


class _HeldView:
    """An acquired buffer-protocol view, released with this object."""

    def __init__(self, source: Any) -> None:
        self.view = _PyBuffer()
        self._held = False
        _get_buffer(source, ctypes.byref(self.view), _PYBUF_C_CONTIGUOUS_WITH_FORMAT)
        self._held = True

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._held and not is_finalizing():
            _release_buffer(ctypes.byref(self.view))


def _describe(source: Any) -> str:
    return f"{type(source).__module__}.{type(source).__qualname__}"


def _refuse(source: Any, reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"cannot use this {_describe(source)} as a buffer: {reason}")


def _from_torch(tensor: Any, allow_device: bool) -> Buffer:
    kind = tensor.device.type
    on_device = kind == "cuda" and allow_device
    if kind != "cpu" and not on_device:
        raise _refuse(tensor, f"it lies on {tensor.device}; buffers are host memory")
    if not tensor.is_contiguous():
        raise _refuse(tensor, "it is not contiguous; pass tensor.contiguous()")
    if tensor.is_conj() or tensor.is_neg():
        raise _refuse(
            tensor,
            "its memory has the conjugate or the negative of its values; pass "
            "tensor.resolve_conj().resolve_neg()",
        )
    stream = None
    if on_device:
        from . import torch_streams

        stream = torch_streams.current(tensor.device)
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
        stream=stream,
        device=tensor.device.index if on_device else None,
        in_stream_order=on_device,
    )


def _from_numpy(array: Any) -> Buffer:
    if not array.flags["C_CONTIGUOUS"]:
        raise _refuse(array, "it is not contiguous; pass numpy.ascontiguousarray(array)")
    if array.dtype.hasobject:
        raise _refuse(array, _OBJECTS)
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
    format = (view.format or b"B").decode()
    # Names of fields stand between colons.
    if "O" in re.sub(":[^:]*:", "", format):
        raise _refuse(source, _OBJECTS)
    return Buffer(
        address=view.buf or 0,
        nbytes=view.len,
        itemsize=view.itemsize,
        datatype=datatype.from_format(format),
        readonly=bool(view.readonly),
        owner=held,
    )


def _from_dlpack(source: Any) -> Buffer:
    if dlpack.device_of(source) != dlpack.HOST:
        raise _refuse(source, "it lies on an accelerator; buffers are host memory")
    found = dlpack.describe(source)
    if not found.is_contiguous:
        raise _refuse(source, "it is not contiguous in row-major order")
    itemsize = (found.bits * found.lanes + 7) // 8
    return Buffer(
        address=found.address,
        nbytes=math.prod(found.shape) * itemsize,
        itemsize=itemsize,
        datatype=datatype.from_dlpack(found.type_code, found.bits, found.lanes),
        readonly=found.readonly,
        owner=(source, found.capsule),
        shape=found.shape,
    )


def _from_cuda_array(source: Any, stream: int | None) -> Buffer:
    array = cuda_arrays.describe(source, stream)
    if not array.is_contiguous:
        raise _refuse(source, "it is not contiguous in row-major order")
    if array.format:
        kind = datatype.from_typestr(array.format)
    else:
        kind = datatype.from_dlpack(*array.dlpack_type)
    return Buffer(
        address=array.address,
        nbytes=math.prod(array.shape) * array.itemsize,
        itemsize=array.itemsize,
        datatype=kind,
        readonly=array.readonly,
        owner=array.owner,
        on_device=True,
        stream=array.stream,
        shape=array.shape,
        device=array.device,
    )


def _is_numpy_array(source: Any) -> bool:
    # An object can be a numpy array only if numpy is already imported. numpy scalars would pass a
    # test by attributes, but their array interface points to a temporary copy; they use the buffer
    # protocol.
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(source, numpy.ndarray)


def _is_torch_tensor(source: Any) -> bool:
    return hasattr(source, "data_ptr") and hasattr(source, "element_size")


def buffer_of(source: Any, allow_device: bool = False, stream: int | None = None) -> Buffer:
    """Return the memory of `source` for reading; CUDA memory only if the caller allows it.

    `stream` is the CUDA stream in whose order the caller will use CUDA memory; None is the one that
    the object's owner names.
    """
    if isinstance(source, Buffer):
        return source
    if _is_torch_tensor(source):
        return _from_torch(source, allow_device)
    if _is_numpy_array(source):
        return _from_numpy(source)
    if allow_device and cuda_arrays.is_cuda_array(source):
        return _from_cuda_array(source, stream)
    try:
        memoryview(source).release()
    except (TypeError, BufferError, ValueError) as error:
        # JAX's arrays of bfloat16 have the buffer protocol, but only DLPack can describe them.
        if hasattr(source, "__dlpack__"):
            return _from_dlpack(source)
        if hasattr(source, "__cuda_array_interface__"):
            raise _refuse(source, "it lies on an accelerator; buffers are host memory") from None
        if isinstance(error, TypeError):
            raise _refuse(
                source, "it is not a tensor, array, DLPack object or buffer-protocol object"
            ) from None
        raise _refuse(source, str(error)) from error
    return _from_buffer_protocol(source)


def writable_buffer_of(
    source: Any, allow_device: bool = False, stream: int | None = None
) -> Buffer:
    """Return the memory of `source` for writing; refuse read-only objects."""
    buffer = buffer_of(source, allow_device, stream)
    if buffer.readonly:
        raise _refuse(source, "it is read-only")
    return buffer
