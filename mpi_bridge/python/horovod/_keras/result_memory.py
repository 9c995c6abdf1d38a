# SPDX-License-Identifier: Apache-2.0
"""Memory for results that a framework adopts without a copy.

TensorFlow adopts a numpy array as a tensor if its address is a multiple of 64; otherwise it copies.
Newly mapped memory costs a page fault per 4 KiB, which takes as much time as a reduction over
shared memory. So memory that a training step needs again and again is kept for the next step.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Sequence

import numpy as np

from mpi_bridge import InternalError, memory

ALIGNMENT = 64


def aligned(nbytes: int) -> int:
    """Return the next multiple of the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def empty(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Return an uninitialised, aligned array."""
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    return _memory(nbytes).view(dtype).reshape(tuple(shape))


def _memory(nbytes: int) -> np.ndarray:
    owner = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -owner.__array_interface__["data"][0] % ALIGNMENT
    return owner[start : start + nbytes]


def _shared_memory(nbytes: int) -> np.ndarray:
    """Return memory of the node, which a reduction need not copy, or else ordinary memory."""
    try:
        return np.frombuffer(memory.allocate(max(nbytes, 1)), np.uint8)[:nbytes]  # page-aligned
    except InternalError:
        return _memory(nbytes)


class ReusedMemory:
    """Hands out blocks of one length; a block is reused when it is no longer referred to.

    Any thread may call.
    """

    def __init__(self, nbytes: int) -> None:
        self._nbytes = nbytes
        self._free: list[np.ndarray] = []
        self._lock = threading.RLock()  # a garbage collection may re-enter
        self._watched: dict[int, weakref.ref] = {}

    def take(self) -> np.ndarray:
        """Return a block of bytes. Only lend() may make parts of it."""
        with self._lock:
            if self._free:
                return self._free.pop()
        block = _shared_memory(self._nbytes)
        block[...] = 0  # the gaps between the parts are reduced too
        return block

    def lend(self, block: np.ndarray, parts: Sequence[np.ndarray]) -> None:
        """Take the block back once all `parts`, which are arrays in it, are gone."""
        # A numpy array refers to the owner of its memory and not to the view that it was made from,
        # so each part is watched separately.
        left = [len(parts)]

        def forget(reference: weakref.ref) -> None:
            del self._watched[id(reference)]
            with self._lock:
                left[0] -= 1
                if left[0] == 0 and len(self._free) < 2:
                    self._free.append(block)

        for part in parts:
            reference = weakref.ref(part, forget)
            self._watched[id(reference)] = reference
