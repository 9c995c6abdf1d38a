# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks.

A step makes two allreduces: of counts and sums, and then of squared deviations from the mean of all
ranks. Sums of squares would need only one, but leave nothing of a variance beside a large mean.
"""

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
        """Return mean and variance of all ranks' inputs; the mask lacks the last dimension."""
        if mask is None:
            weights = tf.ones_like(inputs)
        else:
            weights = tf.expand_dims(tf.cast(mask, inputs.dtype), -1)
            weights = tf.broadcast_to(weights, tf.shape(inputs))
        axes = self._reduction_axes
        sums = tf.stack([tf.reduce_sum(weights, axes), tf.reduce_sum(inputs * weights, axes)])
        count, total = tf.unstack(self._summed(sums, "moments"))
        # Where the mask leaves nothing on any rank, the moments are 0, as in Keras.
        mean = tf.math.divide_no_nan(total, count)
        spread = inputs - tf.reshape(mean, self._shape_beside(inputs))
        deviations = tf.reduce_sum(tf.square(spread) * weights, axes)
        return mean, tf.math.divide_no_nan(self._summed(deviations, "deviations"), count)

    def _summed(self, values: tf.Tensor, what: str) -> tf.Tensor:
        if self._process_set.size() == 1:
            return values
        return allreduce(values, op=Sum, name=f"{self.path}.{what}", process_set=self._process_set)

    def _shape_beside(self, inputs: tf.Tensor) -> list[int]:
        """Return the shape in which one value for each channel applies to the inputs."""
        return [1 if axis in self._reduction_axes else -1 for axis in range(inputs.shape.rank)]
