# SPDX-License-Identifier: Apache-2.0
"""Shared memory in place of large tensors that are reduced again and again.

The ranks of a node reduce shared memory where it lies, each its part; tensors of their own they
must hand over piece by piece, in lock-step, while their processors are busy with the next layer's
gradients. torch gives DistributedDataParallel's buckets private memory, so a copy to shared memory
and back is the quicker way, by far.
"""

from __future__ import annotations

import warnings

import torch

from .. import memory, world
from ..errors import MpiBridgeError

# Below this the hand-over is as quick as the copies.
_WORTH_BYTES = 256 * 1024


class Staging:
    """One group's shared memory, by the names of the operations of its present cycle."""

    def __init__(self) -> None:
        self._cycle = 0
        self._places: dict[str, torch.Tensor] = {}
        self._has_neighbours = world.local_size() > 1

    def place_for(self, name: str, cycle: int, flat: torch.Tensor) -> torch.Tensor | None:
        """Return shared memory like `flat`, the same for the same name; None: not worth it."""
        nbytes = flat.numel() * flat.element_size()
        if not self._has_neighbours or nbytes < _WORTH_BYTES or flat.device.type != "cpu":
            return None
        if cycle != self._cycle:
            # What is in flight keeps its memory.
            self._cycle, self._places = cycle, {}
        place = self._places.get(name)
        if place is None:
            try:
                place = torch.frombuffer(memory.allocate(nbytes), dtype=flat.dtype)
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
