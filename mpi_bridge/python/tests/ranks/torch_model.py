# SPDX-License-Identifier: Apache-2.0
"""A model, its data and its training by one process, to which the training by N ranks is compared.

Each rank computes the reference on all data by itself. The programs that import this run without
and with TEST_GRADIENT_AS_BUCKET_VIEW=1.
"""

import functools
import os

import check
import torch
from torch import nn

import horovod.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
BATCH, STEPS = 4, 8
# Whether gradients are reduced in memory that is kept from step to step.
AS_VIEWS = os.environ.get("TEST_GRADIENT_AS_BUCKET_VIEW") == "1"
# Without it, as most scripts call it.
wrap = hvd.DistributedOptimizer
if AS_VIEWS:
    wrap = functools.partial(hvd.DistributedOptimizer, gradient_as_bucket_view=True)


class Branches(nn.Module):
    """`rare` gets a gradient from some inputs only, `never` from none."""

    def __init__(self):
        super().__init__()
        self.common = nn.Linear(5, 3)
        self.rare = nn.Parameter(torch.ones(3))
        self.never = nn.Parameter(torch.ones(2))
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, x, with_rare=True):
        y = self.common(x).tanh()
        return y * self.rare if with_rare else y


def make_model(seed=3):
    torch.manual_seed(seed)
    return Branches().double()


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)


def data(step):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(SIZE * BATCH, 5, generator=generator, dtype=torch.float64)
    return x, x[:, :3].sin()


def my_part(tensor):
    return tensor[RANK * BATCH : (RANK + 1) * BATCH]


def reference(optimizer_of=sgd, steps=STEPS, clip=None):
    model = make_model()
    optimizer = optimizer_of(model)
    for step in range(steps):
        x, y = data(step)
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return model


def compare(what, model, expected, tolerance=1e-12):
    for (name, actual), wanted in zip(model.named_parameters(), expected.parameters()):
        check.close(f"{what}: {name}", actual.detach(), wanted.detach(), tolerance)
        check.same_on_all_ranks(f"{what}: {name}", actual.detach().numpy())


def loss_of(model, step):
    x, y = data(step)
    return (model(my_part(x)) - my_part(y)).square().mean()


def distributed(optimizer_of=sgd, **options):
    model = make_model(seed=100 + RANK)
    with torch.no_grad():
        if RANK == 0:
            model.load_state_dict(make_model().state_dict())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = optimizer_of(model)
    wrapped = wrap(optimizer, named_parameters=model.named_parameters(), **options)
    return model, wrapped


def train(model, optimizer, steps=STEPS, passes=1, **clearing):
    """Make steps, each with one backward for each of `passes` parts of the rank's batch."""
    for step in range(steps):
        optimizer.zero_grad(**clearing)
        x, y = data(step)
        for part in zip(my_part(x).chunk(passes), my_part(y).chunk(passes)):
            ((model(part[0]) - part[1]).square().mean() / passes).backward()
        optimizer.step()


class OwnCompressor:
    """A compressor that a script brings along."""

    @staticmethod
    def compress(tensor):
        return tensor.clone(), "context"

    @staticmethod
    def decompress(tensor, context):
        check.equal("context", context, "context")
        return tensor
