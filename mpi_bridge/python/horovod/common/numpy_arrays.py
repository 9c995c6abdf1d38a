# SPDX-License-Identifier: Apache-2.0
"""numpy arrays as the collectives see them, one by one and in buckets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import mpi_bridge

from . import buckets, reduce_ops
from .agreement import require_same
from .reduce_ops import ReduceOp


class NumpyArrays:
    """Adapter for numpy; see horovod.common.arrays."""

    def shape(self, array: np.ndarray) -> tuple[int, ...]:
        """Return the lengths of the axes."""
        return array.shape

    def dtype_name(self, array: np.ndarray) -> str:
        """Return the element type's name."""
        return array.dtype.name

    def itemsize(self, array: np.ndarray) -> int:
        """Return the bytes of one element."""
        return array.dtype.itemsize

    def host(self, array: np.ndarray) -> np.ndarray:
        """Return the array if it is contiguous, else a copy that is."""
        return np.asarray(array, order="C")

    def empty(self, shape: Sequence[int], like: np.ndarray) -> np.ndarray:
        """Return an uninitialised array."""
        return np.empty(tuple(shape), like.dtype)

    def scaled(self, array: np.ndarray, factor: float) -> np.ndarray:
        """Return a new array of the same type; integers are truncated toward zero."""
        return (array * factor).astype(array.dtype, copy=False)

    def reshape(self, array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        """Return a view in another shape."""
        return array.reshape(tuple(shape))


ARRAYS = NumpyArrays()


def wire_dtype(name: str) -> np.dtype:
    """Return numpy's type called "float16" or "bfloat16"."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def _items(names: Sequence[str], arrays: Sequence[np.ndarray]) -> list[buckets.Item]:
    return [
        buckets.Item(name, array.dtype.name, array.size, array.dtype.itemsize)
        for name, array in zip(names, arrays)
    ]


class FusedAllreduce:
    """Reduces the same list of arrays again and again, in few large messages."""

    def __init__(
        self,
        names: Sequence[str],
        op: ReduceOp,
        travels_as: str | None = None,
        predivide_factor: float = 1.0,
    ) -> None:
        self._names = list(names)
        self._op = op
        self._travels_as = wire_dtype(travels_as) if travels_as else None
        self._predivide_factor = predivide_factor
        self._agreed: str | None = None

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Collective: return the reduced arrays, in their own types."""
        travelling = [self._compressed(array) for array in arrays]
        items = _items(self._names, travelling)
        description = buckets.describe(items)
        if description != self._agreed:
            require_same("the gradients to be reduced", description)
            self._agreed = description
        results: list[np.ndarray] = list(arrays)
        for bucket in buckets.assign(items, buckets.threshold()):
            members = [travelling[member].reshape(-1) for member in bucket.members]
            # A fresh buffer each time: the caller may go on using the views of the last one.
            buffer = np.concatenate(members)
            self._reduce(buffer)
            for member, offset in zip(bucket.members, bucket.offsets):
                array = arrays[member]
                part = buffer[offset : offset + array.size].reshape(array.shape)
                results[member] = part.astype(array.dtype, copy=False)
        return results

    def _compressed(self, array: np.ndarray) -> np.ndarray:
        # numpy counts ml_dtypes' bfloat16 as "V", not as a float.
        is_float = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
        if self._travels_as is None or not is_float:
            return array
        return array.astype(self._travels_as, copy=False)

    def _reduce(self, buffer: np.ndarray) -> None:
        if self._predivide_factor != 1.0:
            np.divide(buffer, buffer.dtype.type(self._predivide_factor), out=buffer)
        mpi_bridge.allreduce(buffer, op=reduce_ops.native(self._op))
        if self._predivide_factor != 1.0:
            np.multiply(buffer, buffer.dtype.type(self._predivide_factor), out=buffer)


def broadcast_all(
    what: str, names: Sequence[str], arrays: Sequence[np.ndarray], root_rank: int
) -> list[np.ndarray]:
    """Collective: return the root's arrays on every rank, sent as one message."""
    contiguous = [np.asarray(array, order="C") for array in arrays]
    require_same(what, buckets.describe(_items(names, contiguous)))
    payload = bytearray(b"".join(array.tobytes() for array in contiguous))
    mpi_bridge.broadcast(payload, root_rank)
    results, start = [], 0
    for array in contiguous:
        end = start + array.nbytes
        results.append(np.frombuffer(payload[start:end], array.dtype).reshape(array.shape))
        start = end
    return results
