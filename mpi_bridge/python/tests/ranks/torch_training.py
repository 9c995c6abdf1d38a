# SPDX-License-Identifier: Apache-2.0
"""N ranks with batch B train like one process with batch N*B (horovod.torch).

Breaks when a gradient is not averaged, is averaged twice, belongs to another parameter, or when
ranks disagree.
"""

import os

import check
import rows
import torch
from torch import nn
from torch_model import (
    AS_VIEWS,
    RANK,
    SIZE,
    STEPS,
    OwnCompressor,
    compare,
    distributed,
    loss_of,
    make_model,
    reference,
    sgd,
    train,
    wrap,
)

import horovod.torch as hvd


def check_plain_steps():
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


def check_sum_is_size_times_average():
    model, optimizer = distributed(op=hvd.Sum)
    for step in range(STEPS):
        optimizer.zero_grad()
        (loss_of(model, step) / SIZE).backward()
        optimizer.step()
    compare("op=Sum", model, reference())


def check_compressed():
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        model, optimizer = distributed(compression=compression)
        for step in range(STEPS):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            optimizer.step()
        compare(compression.__name__, model, reference(), 0.05)


def check_bfloat16_stays_within_its_error():
    def adam(model):
        return torch.optim.Adam(model.parameters(), lr=0.01)

    model, optimizer = distributed(adam, compression=hvd.Compression.bf16)
    train(model, optimizer)
    compare("bfloat16", model, reference(adam), 0.02)


def check_several_buckets():
    for limit in ("40", "0"):
        hvd.shutdown()
        os.environ["HOROVOD_FUSION_THRESHOLD"] = limit
        hvd.init()
        del os.environ["HOROVOD_FUSION_THRESHOLD"]
        model, optimizer = distributed()
        train(model, optimizer)
        compare(f"buckets of {limit} bytes", model, reference())
    hvd.shutdown()
    hvd.init()


def check_with_a_closure():
    model, optimizer = distributed()
    for step in range(STEPS):

        def closure(step=step):
            optimizer.zero_grad()
            loss = loss_of(model, step)
            loss.backward()
            return loss

        optimizer.step(closure)
    compare("with a closure", model, reference())


def check_with_a_scheduler_made_before():
    model = make_model()
    plain = sgd(model)
    scheduler = torch.optim.lr_scheduler.StepLR(plain, step_size=100)
    optimizer = wrap(plain)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
        scheduler.step()
    compare("with a scheduler", model, reference())


def check_reloaded_state_still_reduces():
    model, optimizer = distributed()
    for step in range(STEPS):
        if step == STEPS // 2:
            optimizer.load_state_dict(optimizer.state_dict())
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
    compare("after load_state_dict", model, reference())


def check_options_that_change_nothing_but_the_way():
    lists = lambda model: [[model.common.weight, model.rare], [model.common.bias]]  # noqa: E731
    variants = [
        ({"backward_passes_per_step": 2}, {"passes": 2}),
        ({"groups": 2}, {}),
        ({"groups": lists}, {}),
        ({"gradient_predivide_factor": float(SIZE)}, {}),
        ({"gradient_as_bucket_view": not AS_VIEWS}, {}),
        ({"sparse_as_dense": True}, {"set_to_none": False}),
        ({"process_set": hvd.global_process_set}, {"set_to_none": True}),
        ({"compression": OwnCompressor}, {}),
    ]
    for options, how in variants:
        model = make_model()
        if callable(options.get("groups")):
            options["groups"] = options["groups"](model)
        optimizer = wrap(sgd(model), model.named_parameters(), **options)
        train(model, optimizer, **how)
        compare(f"{sorted(options)}", model, reference(), 1e-10)


def check_every_kind_of_optimizer():
    for optimizer_of in (
        lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        lambda model: torch.optim.AdamW(model.parameters(), lr=0.01),
        lambda model: torch.optim.Adagrad(model.parameters(), lr=0.1),
        lambda model: torch.optim.RMSprop(model.parameters(), lr=0.01),
        lambda model: torch.optim.NAdam(model.parameters(), lr=0.01),
    ):
        model = make_model()
        train(model, wrap(optimizer_of(model)))
        compare("kind", model, reference(optimizer_of), 1e-9)


def check_a_model_in_channels_last():
    def make():
        torch.manual_seed(2)
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3), nn.Flatten())
        return model.double().to(memory_format=torch.channels_last)

    def steps(model, optimizer, pick):
        for step in range(4):
            generator = torch.Generator().manual_seed(step)
            x = torch.randn(SIZE * 2, 3, 6, 6, generator=generator, dtype=torch.float64)
            optimizer.zero_grad()
            pick(model(x.to(memory_format=torch.channels_last))).square().mean().backward()
            optimizer.step()

    expected = make()
    steps(expected, torch.optim.SGD(expected.parameters(), lr=0.1), lambda y: y)
    model = make()
    optimizer = wrap(torch.optim.SGD(model.parameters(), lr=0.1))
    steps(model, optimizer, lambda y: y[RANK * 2 : RANK * 2 + 2])
    compare("channels last", model, expected)


def check_several_backward_passes_of_one_graph():
    for set_to_none in (False, True):
        model, optimizer = distributed(backward_passes_per_step=3)
        for step in range(STEPS):
            optimizer.zero_grad(set_to_none=set_to_none)
            loss = loss_of(model, step) / 3
            loss.backward(retain_graph=True)
            loss.backward(retain_graph=True)
            loss.backward()
            optimizer.step()
        compare("three passes of one graph", model, reference(), 1e-10)


def check_a_state_loaded_between_passes_counts_them_anew():
    model, optimizer = distributed(backward_passes_per_step=2)
    loss_of(model, 0).backward()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.zero_grad()
    train(model, optimizer, passes=2)
    compare("loaded between passes", model, reference(), 1e-10)


def check_fewer_passes_than_announced_are_reduced_at_the_step():
    model, optimizer = distributed(backward_passes_per_step=3)
    train(model, optimizer)
    compare("fewer passes", model, reference())


if __name__ == "__main__":
    rows.run(globals())
