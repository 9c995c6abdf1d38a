# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..common.process_sets import ProcessSet, global_process_set
from ..common.reduce_ops import Sum
from ..common.unsupported import not_supported
from .reductions import allreduce


class SyncBatchNormalization(keras.layers.BatchNormalization):
    """keras.layers.BatchNormalization whose moments in training are those of all ranks' inputs.

    Ranks may have different numbers of samples. Needs the TensorFlow backend of Keras.
    """

    def __init__(
        self, *args: Any, process_set: ProcessSet = global_process_set, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        if getattr(self, "renorm", False):
            raise not_supported("SyncBatchNormalization(renorm=True)", "leave renorm out")
        self._process_set = process_set

    def _moments(self, inputs: Any, mask: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Return mean and variance, from one reduction of count, sum and sum of squares."""
        if mask is None:
            weights = tf.ones_like(inputs)
        else:
            # The mask lacks the last dimension.
            weights = tf.expand_dims(tf.cast(mask, inputs.dtype), -1)
            weights = tf.broadcast_to(weights, tf.shape(inputs))
        axes = self._reduction_axes
        local = tf.stack(
            [
                tf.reduce_sum(weights, axes),
                tf.reduce_sum(inputs * weights, axes),
                tf.reduce_sum(tf.square(inputs) * weights, axes),
            ]
        )
        if self._process_set.size() > 1:
            local = allreduce(
                local, op=Sum, name=f"{self.path}.moments", process_set=self._process_set
            )
        count, total, squares = tf.unstack(local)
        mean = total / count
        return mean, tf.maximum(squares / count - tf.square(mean), 0.0)
