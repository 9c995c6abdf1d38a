# SPDX-License-Identifier: Apache-2.0
"""The device of a rank, and a model whose training by N ranks must equal that by one process.

TEST_DEVICE is "cuda" (the default), or "cpu" to try the programs themselves where there is no GPU.
Several ranks may share a GPU.
"""

import functools
import os

import torch
from torch import nn

BATCH, STEPS = 8, 8


def device_of(local_rank):
    """Return this rank's device, which becomes torch's current one."""
    if os.environ.get("TEST_DEVICE", "cuda") == "cpu":
        return torch.device("cpu")
    device = torch.device("cuda", local_rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    # The same products on any number of ranks, but for the order of additions.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    return device


def make_model(device, norm=nn.Identity, seed=7):
    """Return a small convolutional network for pictures of 3 x 12 x 12 and ten classes."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        norm(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 5 * 5, 64),
        nn.Tanh(),
        nn.Linear(64, 10),
    )
    return model.to(device)


def data(step, parts, device):
    """Return the pictures and classes of a step for all parts together."""
    # Each batch comes again and again, so that the loss falls.
    generator = torch.Generator().manual_seed(1000 + step % 2)
    pictures = torch.randn(parts * BATCH, 3, 12, 12, generator=generator)
    classes = torch.randint(0, 10, (parts * BATCH,), generator=generator)
    return pictures.to(device), classes.to(device)


def part_of(tensor, part):
    return tensor[part * BATCH : (part + 1) * BATCH]


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


@functools.cache
def losses_alone(device, parts, steps=STEPS, norm=nn.Identity):
    """Train one process on all parts; return the loss of each step and the model."""
    model = make_model(device, norm)
    optimizer = optimizer_of(model)
    losses = []
    for step in range(steps):
        pictures, classes = data(step, parts, device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(pictures), classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model
