# SPDX-License-Identifier: Apache-2.0
"""The types in which tensors travel."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class Compressor:
    """The type in which tensors travel between ranks; subclasses may implement other schemes."""

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """Return what travels, and what decompress() needs."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: tf.Tensor, context: Any) -> tf.Tensor:
        """Return the received tensor in its original type."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """The tensor travels in its own type."""

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, Any]:  # noqa: D102
        return tensor, None

    @staticmethod
    def decompress(tensor: tf.Tensor, context: Any) -> tf.Tensor:  # noqa: D102
        return tensor


class _CastCompressor(Compressor):
    wire_dtype: tf.DType

    @classmethod
    def compress(cls, tensor: tf.Tensor) -> tuple[tf.Tensor, Any]:
        if not tensor.dtype.is_floating:
            return tensor, None
        return tf.cast(tensor, cls.wire_dtype), tensor.dtype

    @classmethod
    def decompress(cls, tensor: tf.Tensor, context: Any) -> tf.Tensor:
        return tensor if context is None else tf.cast(tensor, context)


class FP16Compressor(_CastCompressor):
    """Travels as IEEE half precision: with 5 bits of exponent, large values overflow."""

    wire_dtype = tf.float16


class BF16Compressor(_CastCompressor):
    """Travels as bfloat16: the range of float32 with 8 bits of precision."""

    wire_dtype = tf.bfloat16


class Compression:
    """The choices for `compression=`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
