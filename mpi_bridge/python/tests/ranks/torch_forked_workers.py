# SPDX-License-Identifier: Apache-2.0
"""Trains with a DataLoader whose forked workers drop and collect what they inherited.

Breaks when a worker that frees its copy of the gradients' memory frees the parent's: the gradients
become zero, and the weights differ from those of a training without workers.
"""

import ctypes
import gc
import sys
import weakref

import check
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import horovod.torch as hvd
from mpi_bridge import memory

WARM_UP, STEPS, BATCH = 5, 200, 4

# What the workers let go of; the parent goes on using it.
_shared = {}


class Samples(Dataset):
    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, index):
        if torch.utils.data.get_worker_info() is not None and index % (8 * BATCH) == 0:
            gc.collect()
        generator = torch.Generator().manual_seed(1000 * hvd.rank() + index)
        x = torch.randn(5, generator=generator)
        return x.numpy(), x[:3].sin().numpy()


def collate(samples):
    """Return arrays, because tensors would be sent through files and a server."""
    return tuple(np.stack(parts) for parts in zip(*samples))


def is_shared(gradient):
    """Tell whether a gradient lies in memory that the workers will free."""
    at = gradient.data_ptr()
    return any(0 <= at - ctypes.addressof(array) < len(array) for array in _shared["arrays"])


def let_go(worker):
    """Free every array of the parent's that the worker can reach, in a cycle and at once."""
    arrays = _shared.pop("arrays")
    for array in arrays:
        array.__del__()
    cycle = [arrays]
    cycle.append(cycle)
    watched = weakref.ref(_shared.pop("model"))
    _shared.clear()
    del arrays, cycle
    gc.collect()
    hvd.shutdown()
    if watched() is None:
        raise RuntimeError("the parent's model should have other owners")


def train(workers):
    torch.manual_seed(3)
    model = nn.Linear(5, 3)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.001),
        named_parameters=model.named_parameters(),
        gradient_as_bucket_view=True,  # which keeps them in shared memory
    )
    _shared["model"] = model
    _shared["optimizer"] = optimizer
    # Some steps give the gradients their memory before the workers are forked.
    for _ in range(WARM_UP):
        model(torch.ones(BATCH, 5)).square().mean().backward()
        optimizer.step()
    _shared["arrays"] = list(memory._living.values())
    if workers and not all(is_shared(parameter.grad) for parameter in model.parameters()):
        raise RuntimeError("the gradients are not in shared memory; this test shows nothing")
    loader = DataLoader(
        Samples(),
        batch_size=BATCH,
        collate_fn=collate,
        num_workers=workers,
        worker_init_fn=let_go if workers else None,
        multiprocessing_context="fork" if workers else None,
    )
    steps = 0
    for arrays in loader:
        x, y = map(torch.from_numpy, arrays)
        # The gradients are never cleared but grow, so that a hole in them at any moment shows in
        # all later weights.
        (model(x) - y).square().mean().backward()
        optimizer.step()
        steps += 1
    check.equal("steps", steps, STEPS)
    _shared.clear()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def main():
    hvd.init()
    expected = train(workers=0)
    actual = train(workers=2)
    check.equal("weights", actual.numpy(), expected.numpy())
    check.same_on_all_ranks("weights", actual.numpy())
    check.passed()


if __name__ == "__main__":
    sys.exit(main())
