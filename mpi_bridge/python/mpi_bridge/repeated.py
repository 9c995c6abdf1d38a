# SPDX-License-Identifier: Apache-2.0
"""Operations that a script repeats, which are described to the engine only once.

To describe a small operation takes longer than to run it. A script that trains submits the same
operations in every step, perhaps on other memory. So the descriptions of those on host memory are
kept, by everything that they say but the addresses.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Hashable
from typing import Any

from . import native
from .handle import Handle
from .operation import prepare
from .plain_tensors import is_plain
from .structures import Kind, OperationStruct

_MOST = 1024  # a script may give each operation a new name
_OTHERS = ("shape", "splits", "stream")  # operations with these options are described each time

_kept: dict[Hashable, OperationStruct] = {}


def _layout(array: Any, is_written: bool) -> tuple[int, Hashable] | None:
    """Return the address, and what else a description says of contiguous host memory.

    None is for all that only buffer_of() can judge.
    """
    if getattr(array, "is_cpu", False):  # a tensor of torch
        if is_plain(array):
            return array.data_ptr(), (array.dtype, array.shape)
        return None
    numpy = sys.modules.get("numpy")
    if numpy is None or type(array) is not numpy.ndarray:
        return None
    flags = array.flags
    if not flags.c_contiguous or (is_written and not flags.writeable):
        return None
    return array.__array_interface__["data"][0], (array.dtype, array.shape)


def _take(
    kind: Kind | int, send: Any, recv: Any, options: dict[str, Any]
) -> tuple[Hashable, OperationStruct] | None:
    """Return a description and what it is kept by; no other thread finds it until _keep()."""
    if any(option in options for option in _OTHERS):
        return None
    source = _layout(send, is_written=recv is send)
    target = source if recv is send else _layout(recv, is_written=True)
    if source is None or target is None:
        return None
    key = (kind, source[1], recv is send, target[1], tuple(options.items()))
    operation = _kept.pop(key, None)
    if operation is None:
        operation = prepare(kind, send, recv, **options).without_buffers()
    operation.send, operation.recv = source[0] or None, target[0] or None
    return key, operation


def _keep(key: Hashable, operation: OperationStruct) -> None:
    if len(_kept) >= _MOST:
        _kept.clear()
    _kept[key] = operation


def submit(kind: Kind | int, send: Any, recv: Any, options: dict[str, Any]) -> Handle:
    """Hand an operation to the engine; prepare() has the options."""
    taken = _take(kind, send, recv, options)
    if taken is None:
        return prepare(kind, send, recv, **options).submit()
    number = ctypes.c_int64()
    native.call("mpib_submit", ctypes.byref(taken[1]), ctypes.byref(number))
    _keep(*taken)
    return Handle(number.value, (send, recv), None, taken[1].process_set)


def call(kind: Kind | int, send: Any, recv: Any, options: dict[str, Any]) -> None:
    """Submit, wait and release; prepare() has the options."""
    taken = _take(kind, send, recv, options)
    if taken is None:
        prepare(kind, send, recv, **options).call()
        return
    native.call("mpib_call", ctypes.byref(taken[1]))
    _keep(*taken)
