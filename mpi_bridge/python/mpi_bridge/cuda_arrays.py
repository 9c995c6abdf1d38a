# SPDX-License-Identifier: Apache-2.0
"""Arrays in CUDA memory that are not torch's: CuPy's, Numba's, JAX's, or the engine's results.

They say where they are through `__cuda_array_interface__` or DLPack, and so need no library of
theirs here. A stream is the number of a cudaStream_t; 0 is the legacy default stream. In both
protocols that stream is 1, and the per-thread default stream is 2, which the engine refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import dlpack
from .errors import InvalidArgumentError

LEGACY = 0
_LEGACY_IN_PROTOCOLS = 1
_FIRST_WITH_STREAMS = 3


def engine_stream(stream: int | None) -> int:
    """Return the engine's number for a stream that a caller or a protocol has given."""
    number = LEGACY if stream is None else int(stream)
    if number < 0:
        raise InvalidArgumentError(f"{number} is no CUDA stream")
    return LEGACY if number == _LEGACY_IN_PROTOCOLS else number


def _protocol_stream(stream: int) -> int:
    return stream or _LEGACY_IN_PROTOCOLS


@dataclass(frozen=True)
class CudaArray:
    """What one array says. `stream` is the one that its memory is used in, if it says so."""

    address: int
    shape: tuple[int, ...]
    is_contiguous: bool  # in row-major order
    itemsize: int
    format: str  # as numpy writes it ("<f4"), or "" if DLPack's numbers tell the type
    dlpack_type: tuple[int, int, int]
    readonly: bool
    stream: int | None
    owner: Any
    device: int | None  # CUDA's ordinal, if the array tells it


def is_cuda_array(source: Any) -> bool:
    """Tell whether the object is in CUDA memory by one of the protocols."""
    if hasattr(source, "__cuda_array_interface__"):
        return True
    return hasattr(source, "__dlpack__") and dlpack.device_of(source) == dlpack.CUDA


def describe(source: Any, stream: int | None) -> CudaArray:
    """Return what the array says, after its producer has made `stream` wait where that is needed.

    Without `stream`, the operation follows the array's own stream.
    """
    if not hasattr(source, "__cuda_array_interface__"):
        return _from_dlpack(source, engine_stream(stream))
    interface = source.__cuda_array_interface__
    own = interface.get("stream")
    if own is None:
        # Before version 3 there were no streams, so that nothing is known about pending work.
        if interface.get("version", 0) < _FIRST_WITH_STREAMS and hasattr(source, "__dlpack__"):
            return _ordered_by_producer(source, interface, engine_stream(stream))
        return _from_interface(source, source, interface, None)
    own = engine_stream(own)
    if stream is None or engine_stream(stream) == own:
        return _from_interface(source, source, interface, own)
    if not hasattr(source, "__dlpack__"):
        raise InvalidArgumentError(
            f"the array is in use in CUDA stream {own}, but the operation is to follow stream "
            f"{stream}; leave `stream` out, or make that stream wait and pass an array that names "
            "no other stream"
        )
    return _ordered_by_producer(source, interface, engine_stream(stream))


def _ordered_by_producer(source: Any, interface: Any, stream: int) -> CudaArray:
    """Let the producer make `stream` wait for what its own stream holds; no host waits."""
    ordered = dlpack.describe(source, _protocol_stream(stream))
    return _from_interface(source, (source, ordered.capsule), interface, stream)


def _from_interface(source: Any, owner: Any, interface: Any, stream: int | None) -> CudaArray:
    address, readonly = interface["data"]
    shape = tuple(interface["shape"])
    format = interface["typestr"]
    itemsize = int(format[2:])
    return CudaArray(
        address=address or 0,
        shape=shape,
        is_contiguous=_is_row_major(shape, interface.get("strides"), itemsize),
        itemsize=itemsize,
        format=format,
        dlpack_type=(0, 0, 0),
        readonly=bool(readonly),
        stream=stream,
        owner=owner,
        device=dlpack.cuda_ordinal_of(source),
    )


def _from_dlpack(source: Any, stream: int) -> CudaArray:
    found = dlpack.describe(source, _protocol_stream(stream))
    return CudaArray(
        address=found.address,
        shape=found.shape,
        is_contiguous=found.is_contiguous,
        itemsize=(found.bits * found.lanes + 7) // 8,
        format="",
        dlpack_type=(found.type_code, found.bits, found.lanes),
        readonly=found.readonly,
        stream=stream,
        owner=(source, found.capsule),
        device=dlpack.cuda_ordinal_of(source),
    )


def _is_row_major(shape: tuple[int, ...], strides: Any, itemsize: int) -> bool:
    if strides is None:
        return True
    expected = itemsize
    for length, stride in zip(reversed(shape), reversed(tuple(strides))):
        if length > 1 and stride != expected:
            return False
        expected *= length
    return True


class CudaBytes:
    """Bytes in CUDA memory that a framework can read without a copy.

    They are ready in the order of `stream`, and exist as long as what they were taken from: the
    result of an operation is gone when its handle is released.
    """

    def __init__(self, address: int, nbytes: int, stream: int) -> None:
        self._address = address
        self._nbytes = nbytes
        self.stream = stream

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The protocol's description, version 3."""
        return {
            "version": 3,
            "shape": (self._nbytes,),
            "typestr": "|u1",
            "data": (self._address, False),
            "strides": None,
            "stream": _protocol_stream(self.stream),
        }

    def dlpack_capsule(self, device: int) -> Any:
        """Return a DLPack capsule, for a consumer that has ordered its own stream already.

        `device` is CUDA's ordinal.
        """
        return dlpack.capsule_of(self._address, self._nbytes, (dlpack.CUDA, device))
