# SPDX-License-Identifier: Apache-2.0
"""Checks that gradients travel while the backward pass of PyTorch computes others.

The first layer waits, in its backward pass, until a gradient of a later layer has been reduced over
all ranks. If gradients travelled only after the backward pass, it would wait in vain.
"""

import check
import reduction_wait
import rows
import torch
from reduction_wait import waited
from torch import nn

import horovod.torch as hvd

hvd.init()

STEPS = 6


def wait_for_a_reduction(gradient):
    reduction_wait.wait_for_a_reduction()
    return gradient


def check_gradients_travel_during_backward():
    torch.manual_seed(0)
    # Each layer's gradient is as long as the engine's first bucket, 1 MiB.
    layers = [nn.Linear(512, 512, bias=False) for _ in range(8)]
    model = nn.Sequential(*layers)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1e-3), model.named_parameters()
    )
    x = torch.randn(512, 512)
    for step in range(STEPS + 3):
        reduction_wait.begin_step()
        optimizer.zero_grad()
        first = layers[0](x)
        if step >= 3:  # the plan is made
            first.register_hook(wait_for_a_reduction)
        model[1:](first).square().mean().backward()
        optimizer.step()
        if step >= 3 and hvd.size() > 1:
            check.equal("a gradient was reduced before backward had ended", waited[0] > 0, True)
    for name, parameter in model.named_parameters():
        check.same_on_all_ranks(name, parameter.detach().numpy())


if __name__ == "__main__":
    rows.run(globals())
