# SPDX-License-Identifier: Apache-2.0
"""Arrays in CUDA memory by the driver's own calls: on a GPU, or on the stand-in of tests/gpu.

They offer what CuPy's arrays offer: `__cuda_array_interface__` with their stream, and DLPack, whose
producer makes the consumer's stream wait by an event.
"""

import ctypes
import os
import threading

import numpy as np

from mpi_bridge import on_device

_cuda = ctypes.CDLL(os.environ.get("MPI_BRIDGE_CUDA_LIBRARY", "libcuda.so.1"))
_ADDRESS = ctypes.c_uint64
_POINTER = ctypes.c_void_p
_SIGNATURES = {
    "cuInit": [ctypes.c_uint],
    "cuDeviceGetCount": [ctypes.POINTER(ctypes.c_int)],
    "cuDeviceGet": [ctypes.POINTER(ctypes.c_int), ctypes.c_int],
    "cuDevicePrimaryCtxRetain": [ctypes.POINTER(_POINTER), ctypes.c_int],
    "cuCtxPushCurrent_v2": [_POINTER],
    "cuMemAlloc_v2": [ctypes.POINTER(_ADDRESS), ctypes.c_size_t],
    "cuMemFree_v2": [_ADDRESS],
    "cuMemcpyAsync": [_ADDRESS, _ADDRESS, ctypes.c_size_t, _POINTER],
    "cuStreamCreateWithPriority": [ctypes.POINTER(_POINTER), ctypes.c_uint, ctypes.c_int],
    "cuStreamSynchronize": [_POINTER],
    "cuStreamWaitEvent": [_POINTER, _POINTER, ctypes.c_uint],
    "cuEventCreate": [ctypes.POINTER(_POINTER), ctypes.c_uint],
    "cuEventRecord": [_POINTER, _POINTER],
    "cuLaunchHostFunc": [_POINTER, _POINTER, _POINTER],
}
for _name, _arguments in _SIGNATURES.items():
    getattr(_cuda, _name).argtypes = _arguments
    getattr(_cuda, _name).restype = ctypes.c_int

_NON_BLOCKING = 1


def must(name, *arguments):
    code = getattr(_cuda, name)(*arguments)
    if code != 0:
        raise RuntimeError(f"{name} failed with CUDA error {code}")


def use_device(local_rank):
    """Make a device current in this thread; return its number."""
    count, device, context = ctypes.c_int(), ctypes.c_int(), _POINTER()
    must("cuInit", 0)
    must("cuDeviceGetCount", ctypes.byref(count))
    must("cuDeviceGet", ctypes.byref(device), local_rank % count.value)
    must("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    must("cuCtxPushCurrent_v2", context)
    Array.current_device = device.value
    return device.value


def new_stream():
    stream = _POINTER()
    must("cuStreamCreateWithPriority", ctypes.byref(stream), _NON_BLOCKING, 0)
    return stream.value


def synchronize(stream):
    must("cuStreamSynchronize", stream or None)


def order(first, then):
    """Make one stream wait for what another holds now."""
    event = _POINTER()
    must("cuEventCreate", ctypes.byref(event), 2)
    must("cuEventRecord", event, first or None)
    must("cuStreamWaitEvent", then or None, event, 0)


class Gate:
    """Holds a stream until it is opened; a host that waits for the stream first gets there late."""

    def __init__(self, stream, seconds=60):
        self._open = threading.Event()
        self.was_opened = None  # False: nobody has opened it in time

        def hold(_):
            self.was_opened = self._open.wait(seconds)

        self._function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(hold)
        # cuMemFree() waits for the device, so memory must not become free behind the gate.
        on_device.sweep()
        must("cuLaunchHostFunc", stream or None, self._function, None)

    def open(self):
        self._open.set()


_PyCapsule_New = ctypes.pythonapi.PyCapsule_New
_PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_PyCapsule_New.restype = ctypes.py_object


class _Managed(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
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


class CudaMemory:
    """A block that lives as long as a reference to it; freed at once, as cuMemFree does."""

    def __init__(self, nbytes):
        self.address = ctypes.c_uint64()
        must("cuMemAlloc_v2", ctypes.byref(self.address), max(nbytes, 1))

    def __del__(self):
        must("cuMemFree_v2", self.address)


class Array:
    """A row-major array in use in one stream."""

    current_device = 0  # of this process, see use_device()

    def __init__(self, values, stream, readonly=False):
        values = np.ascontiguousarray(values)
        self.shape, self.dtype, self.stream = values.shape, values.dtype, stream
        self.readonly, self._device = readonly, self.current_device
        self._memory = CudaMemory(values.nbytes)
        self.address = self._memory.address.value
        self.set(values)

    def set(self, values):
        """Copy in the order of the stream; the source has been read when this returns."""
        values = np.ascontiguousarray(values, self.dtype)
        must("cuMemcpyAsync", self.address, values.ctypes.data, values.nbytes, self.stream or None)

    def get(self, stream=None):
        """Copy out in the order of the stream and wait."""
        values = np.empty(self.shape, self.dtype)
        stream = self.stream if stream is None else stream
        must("cuMemcpyAsync", values.ctypes.data, self.address, values.nbytes, stream or None)
        synchronize(stream)
        return values


class InterfaceArray(Array):
    @property
    def __cuda_array_interface__(self):
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, self.readonly),
            "strides": None,
            "stream": self.stream or 1,
        }


class DlpackArray(Array):
    """`asked` are the streams for which consumers have asked to be ordered."""

    asked = ()

    def __dlpack_device__(self):
        return 2, self._device

    def __dlpack__(self, stream=None, max_version=None):
        self.asked = (*self.asked, stream)
        if stream != 2:  # the stand-in has no per-thread default stream; the engine refuses it
            order(self.stream, 0 if stream == 1 else stream)
        managed = _Managed(
            major=1,
            flags=int(self.readonly),
            data=self.address,
            device_type=2,
            device_id=self._device,
            ndim=len(self.shape),
            code={"i": 0, "u": 1, "f": 2, "b": 6}[self.dtype.kind],
            bits=8 * self.dtype.itemsize,
            lanes=1,
            shape=(ctypes.c_int64 * len(self.shape))(*self.shape),
        )
        self._managed = managed  # the capsule has no destructor; its consumer also keeps this array
        return _PyCapsule_New(ctypes.addressof(managed), b"dltensor_versioned", None)


class BothArray(InterfaceArray, DlpackArray):
    """Like CuPy's, with both protocols."""
