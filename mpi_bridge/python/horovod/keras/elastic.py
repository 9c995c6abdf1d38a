# SPDX-License-Identifier: Apache-2.0
"""Elastic training with Keras: hvd.elastic.run, its state and its callbacks."""

from .._keras.elastic import (
    CommitStateCallback,
    KerasState,
    UpdateBatchStateCallback,
    UpdateEpochStateCallback,
    run,
)

__all__ = [
    "CommitStateCallback",
    "KerasState",
    "UpdateBatchStateCallback",
    "UpdateEpochStateCallback",
    "run",
]
