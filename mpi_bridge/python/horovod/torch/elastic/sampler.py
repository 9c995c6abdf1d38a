# SPDX-License-Identifier: Apache-2.0
"""A data sampler that keeps track of processed data if the ranks change during an epoch."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sized
from itertools import cycle, islice
from typing import Any

import torch

from ...common import basics


class ElasticSampler(torch.utils.data.Sampler):
    """Gives each rank an equal part of the data that no rank has processed in this epoch.

    Use it with a DataLoader whose own shuffle is off, and make it part of the TorchState. Call
    record_batch after each batch and set_epoch(epoch + 1) at the END of each epoch: setting the
    epoch at its beginning would forget what was processed before the restart. If the number of
    ranks does not divide the data, a few items are used twice, so that all ranks have equally many.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_indices: set[int] = set()
        self.reset()

    def reset(self) -> None:
        """Divide the remaining data among the current ranks."""
        self.num_replicas = basics.size()
        self.rank = basics.rank()
        self.remaining_indices = self._shuffled(
            index for index in range(len(self.dataset)) if index not in self.processed_indices
        )
        self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas
        self._of_all_ranks = list(islice(cycle(self.remaining_indices), self.total_size))
        self.indices = self._of_all_ranks[self.rank :: self.num_replicas]

    def _shuffled(self, indices: Iterable[int]) -> list[int]:
        result = list(indices)
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(result)
        return result

    def set_epoch(self, epoch: int) -> None:
        """Begin another epoch, in which no data is processed yet."""
        self.epoch = epoch
        self.processed_indices = set()
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Note that all ranks have processed their batch number `batch_idx` since the last reset.

        The ranks of a training take their steps together. So each of them knows what the others
        have processed, and the state_dict() of one is that of all.
        """
        step = batch_size * self.num_replicas
        self.record_indices(self._of_all_ranks[batch_idx * step : (batch_idx + 1) * step])

    def record_indices(self, indices: Iterable[int]) -> None:
        """Note that these items of the dataset are processed."""
        self.processed_indices.update(indices)

    def get_indices(self, batch_idx: int, batch_size: int) -> list[int]:
        """Return the items of this rank's batch number `batch_idx`."""
        return self.indices[batch_idx * batch_size : (batch_idx + 1) * batch_size]

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch and the items that this rank knows to be processed in it."""
        return {"epoch": self.epoch, "processed_indices": set(self.processed_indices)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the value of state_dict(), or of Horovod's, and divide the remaining data."""
        self.epoch = state_dict["epoch"]
        if "processed_indices" in state_dict:
            self.processed_indices = set(state_dict["processed_indices"])
        else:
            # Horovod counts them, in the order of the epoch.
            order = self._shuffled(range(len(self.dataset)))
            self.processed_indices = set(order[: state_dict["processed_num"]])
        self.reset()

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)

    def __len__(self) -> int:
        return self.num_samples
