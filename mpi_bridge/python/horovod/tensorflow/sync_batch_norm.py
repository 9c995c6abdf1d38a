# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks.

A step makes one allreduce, in which each rank has a row for its counts, means and sums of squared
deviations. These are combined without the cancellation that sums of squares would suffer.
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
        count = tf.reduce_sum(weights, axes, keepdims=True)
        # A rank may have no samples.
        mean = tf.math.divide_no_nan(tf.reduce_sum(inputs * weights, axes, keepdims=True), count)
        deviations = tf.reduce_sum(tf.square(inputs - mean) * weights, axes)
        rows = tf.stack([tf.squeeze(count, axes), tf.squeeze(mean, axes), deviations])[tf.newaxis]
        size, own = self._process_set.size(), self._process_set.rank()
        if size > 1:
            # Not an allgather, whose gradient Horovod defines as an average.
            rows = allreduce(
                tf.pad(rows, [[own, size - own - 1], [0, 0], [0, 0]]),
                op=Sum,
                name=f"{self.path}.moments",
                process_set=self._process_set,
            )
        counts, means, deviations = tf.unstack(rows, axis=1)
        total = tf.reduce_sum(counts, 0)
        mean = tf.reduce_sum(counts * means, 0) / total
        apart = tf.square(means - mean) * counts
        return mean, tf.reduce_sum(deviations + apart, 0) / total
