# SPDX-License-Identifier: Apache-2.0
"""Element types and reduction operations, with the numbers that mpi_bridge.h gives them."""

from __future__ import annotations

import enum
import struct


class DataType(enum.IntEnum):
    """An element type that can be reduced."""

    UINT8 = 0
    INT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    FLOAT16 = 5
    BFLOAT16 = 6
    FLOAT32 = 7
    FLOAT64 = 8
    BOOL = 9


class Op(enum.IntEnum):
    """A reduction."""

    SUM = 0
    AVERAGE = 1
    MIN = 2
    MAX = 3
    PRODUCT = 4
    AND = 5
    OR = 6


# numpy, torch and TensorFlow use the same names for these.
_BY_NAME = {datatype.name.lower(): datatype for datatype in DataType}

_SIGNED_BY_SIZE = {1: DataType.INT8, 2: DataType.INT16, 4: DataType.INT32, 8: DataType.INT64}
_FLOAT_BY_CODE = {"e": DataType.FLOAT16, "f": DataType.FLOAT32, "d": DataType.FLOAT64}

# DLPack's type codes: 0 signed integer, 1 unsigned integer, 2 IEEE float, 4 bfloat, 6 bool.
_BY_DLPACK = {
    (0, 8): DataType.INT8,
    (0, 16): DataType.INT16,
    (0, 32): DataType.INT32,
    (0, 64): DataType.INT64,
    (1, 8): DataType.UINT8,
    (2, 16): DataType.FLOAT16,
    (2, 32): DataType.FLOAT32,
    (2, 64): DataType.FLOAT64,
    (4, 16): DataType.BFLOAT16,
    (6, 8): DataType.BOOL,
}


def from_name(name: str) -> DataType | None:
    """Return the type called `name` ("float32", "bfloat16"), None if it cannot be reduced."""
    return _BY_NAME.get(name)


def from_format(code: str) -> DataType | None:
    """Return the type of a buffer-protocol format ("f", "<q"), None if it cannot be reduced."""
    order, letter = (code[:1], code[1:]) if code[:1] in "@=<>!" else ("@", code)
    foreign_order = order in ">!" and struct.pack("@H", 1) != struct.pack(">H", 1)
    if foreign_order and letter not in ("b", "B", "?"):
        return None
    if letter in _FLOAT_BY_CODE:
        return _FLOAT_BY_CODE[letter]
    if letter == "?":
        return DataType.BOOL
    if letter == "B":
        return DataType.UINT8
    if letter in ("b", "h", "i", "l", "q"):
        return _SIGNED_BY_SIZE[struct.calcsize(order + letter)]
    return None


def from_dlpack(code: int, bits: int, lanes: int) -> DataType | None:
    """Return the type of a DLPack triple, None if it cannot be reduced."""
    return _BY_DLPACK.get((code, bits)) if lanes == 1 else None


def from_typestr(text: str) -> DataType | None:
    """Return the type of an array interface's typestr ("<f4"), None if it cannot be reduced."""
    if text[:1] == ">" and text[2:] != "1":
        return None
    kinds = {"f": "float", "i": "int", "u": "uint", "b": "bool"}
    kind = kinds.get(text[1:2])
    if kind is None:
        return None
    return from_name(kind if kind == "bool" else f"{kind}{8 * int(text[2:])}")
