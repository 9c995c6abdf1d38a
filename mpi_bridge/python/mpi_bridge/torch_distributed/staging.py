# SPDX-License-Identifier: Apache-2.0
"""Shared memory in place of large tensors that are reduced again and again.

The ranks of a node reduce shared memory in place, each its own part. Private tensors have to be
passed on piece by piece, in lock-step, while the processors are busy with the next layer's
gradients. torch gives DistributedDataParallel's buckets private memory, so copying to shared memory
and back is much faster.
"""

from __future__ import annotations

import warnings

import torch

from .. import memory, world
from ..errors import MpiBridgeError

# For smaller tensors, passing them on is as fast as the copies.
_WORTH_BYTES = 256 * 1024


class Staging:
    """One group's shared memory, by the names of the operations in its present cycle."""

    def __init__(self) -> None:
        self._cycle = 0
        self._places: dict[str, torch.Tensor] = {}
        self._has_neighbours = world.local_size() > 1

    def is_worth(self, flat: torch.Tensor) -> bool:
        """Tell whether the copies would pay."""
        return self._has_neighbours and flat.is_cpu and flat.nbytes >= _WORTH_BYTES

    def place_for(self, name: str, cycle: int, flat: torch.Tensor) -> torch.Tensor | None:
        """Return shared memory like `flat`, the same for each name, or None if there is none."""
        if cycle != self._cycle:
            # Operations in flight keep their memory.
            self._cycle, self._places = cycle, {}
        place = self._places.get(name)
        if place is None:
            try:
                place = torch.frombuffer(memory.allocate(flat.nbytes), dtype=flat.dtype)
            except MpiBridgeError as error:
                warnings.warn(
                    f"mpi_bridge: large gradients are reduced from private memory, which takes "
                    f"longer: {error}",
                    stacklevel=2,
                )
                self._has_neighbours = False
                return None
            self._places[name] = place
        return place
