# SPDX-License-Identifier: Apache-2.0
"""N ranks with batch B train like one process with batch N*B (horovod.torch).

Breaks when a gradient is not averaged, is averaged twice, belongs to another parameter, or when
ranks disagree. Each rank computes the reference on all data by itself.
"""

import check
import torch
from torch import nn

import horovod.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
BATCH, STEPS = 4, 8


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
    wrapped = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), **options
    )
    return model, wrapped


def plain_steps():
    for optimizer_of in (sgd, lambda model: torch.optim.Adam(model.parameters(), lr=0.01)):
        for options in (
            {},
            {"gradient_predivide_factor": 2.0},
            {"backward_passes_per_step": 2},
        ):
            model, optimizer = distributed(optimizer_of, **options)
            for step in range(STEPS):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                optimizer.step()
            compare(f"{options}", model, reference(optimizer_of), 1e-10)
            check.equal("never stays without gradient", model.never.grad is None, True)


def sum_is_size_times_average():
    model, optimizer = distributed(op=hvd.Sum)
    for step in range(STEPS):
        optimizer.zero_grad()
        (loss_of(model, step) / SIZE).backward()
        optimizer.step()
    compare("op=Sum", model, reference())


def compressed():
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        model, optimizer = distributed(compression=compression)
        for step in range(STEPS):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            optimizer.step()
        compare(compression.__name__, model, reference(), 0.05)


def several_buckets():
    import os

    os.environ["HOROVOD_FUSION_THRESHOLD"] = "40"
    try:
        model, optimizer = distributed()
        for step in range(STEPS):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            optimizer.step()
    finally:
        del os.environ["HOROVOD_FUSION_THRESHOLD"]
    compare("several buckets", model, reference())


def clipped_between_synchronize_and_step():
    model, optimizer = distributed()
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.synchronize()
        nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        with optimizer.skip_synchronize():
            optimizer.step()
    compare("clipped", model, reference(clip=0.05))


def with_a_closure():
    model, optimizer = distributed()
    for step in range(STEPS):

        def closure(step=step):
            optimizer.zero_grad()
            loss = loss_of(model, step)
            loss.backward()
            return loss

        optimizer.step(closure)
    compare("with a closure", model, reference())


def with_a_scheduler_made_before():
    model = make_model()
    plain = sgd(model)
    scheduler = torch.optim.lr_scheduler.StepLR(plain, step_size=100)
    optimizer = hvd.DistributedOptimizer(plain)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
        scheduler.step()
    compare("with a scheduler", model, reference())


def branch_taken_by_one_rank_only():
    model, optimizer = distributed()
    x = torch.ones(1, 5, dtype=torch.float64)
    optimizer.zero_grad()
    model(x, with_rare=RANK == 0).sum().backward()
    alone = make_model()
    alone(x).sum().backward()
    optimizer.synchronize()
    check.close("gradient of one rank", model.rare.grad, alone.rare.grad / SIZE, 1e-12)
    if SIZE > 1:
        with optimizer.skip_synchronize():
            optimizer.step()
        check.same_on_all_ranks("rare", model.rare.detach().numpy())


def reloaded_state_still_reduces():
    model, optimizer = distributed()
    for step in range(STEPS):
        if step == STEPS // 2:
            optimizer.load_state_dict(optimizer.state_dict())
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
    compare("after load_state_dict", model, reference())


def wrong_use_is_refused():
    model = make_model()
    names = list(model.named_parameters())
    wrap = hvd.DistributedOptimizer
    check.raises(ValueError, lambda: wrap(sgd(model), named_parameters=names[:1]))
    check.raises(ValueError, lambda: wrap(sgd(model), named_parameters=names + names[:1]))
    check.raises(NotImplementedError, lambda: wrap(sgd(model), groups=2))
    check.raises(NotImplementedError, lambda: wrap(torch.optim.LBFGS(model.parameters())))
    check.raises(ValueError, lambda: wrap(sgd(model), op=hvd.Max))


plain_steps()
sum_is_size_times_average()
compressed()
several_buckets()
clipped_between_synchronize_and_step()
with_a_closure()
with_a_scheduler_made_before()
branch_taken_by_one_rank_only()
reloaded_state_still_reduces()
wrong_use_is_refused()
check.passed()
