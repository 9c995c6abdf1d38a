# SPDX-License-Identifier: Apache-2.0
"""A script of Horovod whose ranks torchrun has started."""

import os

import torch

import horovod.torch as hvd

hvd.init()
assert (hvd.rank(), hvd.size()) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
reduced = hvd.allreduce(torch.tensor([float(hvd.rank())]), op=hvd.Sum)
assert reduced.item() == hvd.size() * (hvd.size() - 1) / 2, reduced
print(f"passed on rank {hvd.rank()}", flush=True)
