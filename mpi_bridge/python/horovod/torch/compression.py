# SPDX-License-Identifier: Apache-2.0
"""The types in which gradients travel."""

from __future__ import annotations

import torch


class Compressor:
    """The gradient travels in its own type."""

    wire_dtype: torch.dtype | None = None

    @classmethod
    def travels_as(cls, dtype: torch.dtype) -> torch.dtype:
        """Return the type in which a tensor of type `dtype` travels."""
        return cls.wire_dtype if cls.wire_dtype is not None and dtype.is_floating_point else dtype

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
        """Return the tensor as it travels, and what decompress() needs to undo it."""
        return tensor.to(cls.travels_as(tensor.dtype)), tensor.dtype

    @classmethod
    def decompress(cls, tensor: torch.Tensor, context: torch.dtype) -> torch.Tensor:
        """Return the tensor in its own type again."""
        return tensor.to(context)


class NoneCompressor(Compressor):
    """The gradient travels in its own type."""


class FP16Compressor(Compressor):
    """Travels as IEEE half precision: with 5 bits of exponent, large gradients overflow."""

    wire_dtype = torch.float16


class BF16Compressor(Compressor):
    """Travels as bfloat16: the range of float32 with 8 bits of precision."""

    wire_dtype = torch.bfloat16


class Compression:
    """The choices for `compression=`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
