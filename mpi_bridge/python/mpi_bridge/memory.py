# SPDX-License-Identifier: Apache-2.0
"""Memory that the other ranks of the node can access: collectives on it run without copies.

An array from allocate() is ordinary memory in every other respect. It lives as long as there is a
reference to it or to a view of it, also beyond shutdown(), which moves remaining arrays to private
memory at the same address. In a forked process the array is a private copy, and its end frees none
of the parent's memory.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
import weakref
from typing import Any, Callable

from . import native
from .errors import error_for

_MAP_FIXED_NOREPLACE = 0x100000  # specific to Linux; Python's mmap module does not have it
_MAP_FAILED = ctypes.c_void_p(-1).value
_INTERNAL_ERROR = 7


class _SharedArray(ctypes.Array):
    """A ctypes array, for the buffer protocol; frees its memory when it is deleted."""

    _type_ = ctypes.c_char
    _length_ = 0
    is_private = False

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_finalizing():  # the names of this module may be gone, and the memory goes anyway
            return
        if self.is_private:
            _system().munmap(ctypes.addressof(self), len(self))
        else:
            native.functions().mpib_free(ctypes.addressof(self))


_living: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # by address
# Held from the allocation of an array until it is in _living, and while shutdown() moves all that
# are there: one that another thread got meanwhile would stay behind, without memory.
_lock = threading.RLock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


# Another thread may have held it in the process that has forked.
os.register_at_fork(after_in_child=_renew_lock)


def _system() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


def allocate(nbytes: int) -> ctypes.Array:
    """Return `nbytes` (> 0) bytes as an object with the buffer protocol; page-aligned.

    Raise InternalError when there is no shared memory left.
    """
    kind = type("SharedArray", (_SharedArray,), {"_length_": nbytes})
    with _lock:
        address = native.functions().mpib_alloc(nbytes)
        if not address:
            text = native.functions().mpib_last_error().decode(errors="replace")
            raise error_for(_INTERNAL_ERROR, "MPIB_ERROR_INTERNAL", text)
        array = kind.from_address(address)
        _living[address] = array
    return array


def keep_beyond(finalize: Callable[[], None], with_content: bool = True) -> None:
    """Call mpib_finalize(), which unmaps all of this memory, and map what is still in use again.

    Without content the memory is zeros, and nothing is copied; this is for the end of the process.
    """
    with _lock:
        _keep_beyond(finalize, with_content)


def _keep_beyond(finalize: Callable[[], None], with_content: bool) -> None:
    shared = [array for array in _living.values() if not array.is_private]
    saved = [(array, array.raw if with_content else b"") for array in shared]
    finalize()
    protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    for array, content in saved:
        address = ctypes.addressof(array)
        mapped = _system().mmap(
            address, len(array), protection, flags | _MAP_FIXED_NOREPLACE, -1, 0
        )
        if mapped != address:
            if mapped != _MAP_FAILED:
                _system().munmap(mapped, len(array))
            raise MemoryError("the memory of gradients could not be kept beyond shutdown()")
        array.is_private = True
        ctypes.memmove(address, content, len(content))
