# SPDX-License-Identifier: Apache-2.0
"""The types in which gradients travel, for every backend of Keras."""

from __future__ import annotations

from typing import Any

import keras


class NoneCompressor:
    """The gradient travels in its own type."""

    wire_dtype: str | None = None

    @classmethod
    def compress(cls, tensor: Any) -> tuple[Any, Any]:
        """Return what travels, and what decompress() needs."""
        dtype = keras.backend.standardize_dtype(tensor.dtype)
        if cls.wire_dtype is None or "float" not in dtype:
            return tensor, None
        return keras.ops.cast(tensor, cls.wire_dtype), dtype

    @classmethod
    def decompress(cls, tensor: Any, context: Any) -> Any:
        """Return the received data in its original type."""
        return tensor if context is None else keras.ops.cast(tensor, context)


class FP16Compressor(NoneCompressor):
    """Travels as IEEE half precision: with 5 bits of exponent, large gradients overflow."""

    wire_dtype = "float16"


class BF16Compressor(NoneCompressor):
    """Travels as bfloat16: the range of float32 with 8 bits of precision."""

    wire_dtype = "bfloat16"


class Compression:
    """The choices for `compression=`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
