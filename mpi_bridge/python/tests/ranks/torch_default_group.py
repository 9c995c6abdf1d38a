# SPDX-License-Identifier: Apache-2.0
"""The default group of torch.distributed, and a group over gloo to compare it with."""

import check
import torch
import torch.distributed as dist

import mpi_bridge.torch_distributed  # noqa: F401

dist.init_process_group("mpi_bridge")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
GLOO = dist.new_group(backend="gloo")


def both():
    """What must do the same: the default group, and gloo's."""
    return dist.group.WORLD, GLOO


def same(what, actual, expected):
    if actual.dtype != expected.dtype or not torch.equal(actual, expected):
        raise check.WrongValueError(f"rank {RANK}: {what}: got {actual}, expected {expected}")
