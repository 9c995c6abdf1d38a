# SPDX-License-Identifier: Apache-2.0
"""The tensor that each rank passes to horovod.torch, and what follows from those of all ranks."""

import torch

import horovod.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
MEAN = (SIZE - 1) / 2
TOTAL = MEAN * SIZE


def base():
    return torch.arange(6.0).view(2, 3)


def mine():
    return base() + RANK
