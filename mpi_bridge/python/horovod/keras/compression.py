# SPDX-License-Identifier: Apache-2.0
"""In which type gradients travel."""

from __future__ import annotations


class NoneCompressor:
    """Travels as it is."""

    wire_dtype: str | None = None


class FP16Compressor(NoneCompressor):
    """Travels as IEEE half precision: 5 bits of exponent, so large gradients overflow."""

    wire_dtype = "float16"


class BF16Compressor(NoneCompressor):
    """Travels as bfloat16: the range of float32 with 8 bits of precision."""

    wire_dtype = "bfloat16"


class Compression:
    """The choices for `compression=`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
