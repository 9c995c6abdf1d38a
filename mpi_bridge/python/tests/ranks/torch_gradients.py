# SPDX-License-Identifier: Apache-2.0
"""What a script finds in the gradients of parameters and may do with them (horovod.torch).

Breaks when a gradient that a script clips, keeps, clears or replaces is not the reduced one, or
when the optimizer steps on another.
"""

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
    data,
    distributed,
    loss_of,
    make_model,
    reference,
    sgd,
    train,
)

import horovod.torch as hvd


def check_clipped_between_synchronize_and_step():
    model, optimizer = distributed()
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.synchronize()
        nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        with optimizer.skip_synchronize():
            optimizer.step()
    compare("clipped", model, reference(clip=0.05))


def check_branch_taken_by_one_rank_only():
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


def check_a_script_may_keep_gradients():
    model, optimizer = distributed(**({"gradient_as_bucket_view": False} if AS_VIEWS else {}))
    kept = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
        gradient = model.common.weight.grad
        kept.append((gradient, gradient.clone()))
        of_its_own = gradient.numel() * gradient.element_size()
        check.equal("memory", gradient.untyped_storage().nbytes(), of_its_own)
    for gradient, value in kept:
        check.equal("kept over the steps", gradient, value)
    compare("kept", model, reference())


def check_gradients_that_a_script_changes_while_they_travel():
    """The optimizer steps on reduced values, whatever tensor is the gradient by then."""
    if SIZE == 1:
        return
    for change in (lambda gradient: gradient.clone(), lambda gradient: None):
        for options in ({}, {"compression": hvd.Compression.fp16}, {"compression": OwnCompressor}):
            model, optimizer = distributed(**options)
            for step in range(STEPS):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                if step:  # nothing travels before the first step
                    for parameter in (model.common.weight, model.rare):
                        parameter.grad = change(parameter.grad)
                optimizer.step()
            exact = options.get("compression") is not hvd.Compression.fp16
            compare(f"changed {options}", model, reference(), 1e-10 if exact else 0.05)


def check_clearing_and_averaged_weights():
    for set_to_none in (False, True):
        model, optimizer = distributed()
        averaged = torch.optim.swa_utils.AveragedModel(model)
        expected = make_model()
        alone = sgd(expected)
        expected_average = torch.optim.swa_utils.AveragedModel(expected)
        for step in range(STEPS):
            x, y = data(step)
            alone.zero_grad(set_to_none=set_to_none)
            (expected(x) - y).square().mean().backward()
            nn.utils.clip_grad_value_(expected.parameters(), 0.01)
            alone.step()
            expected_average.update_parameters(expected)
            # Clearing by the model goes past the optimizer.
            (optimizer if step % 2 else model).zero_grad(set_to_none=set_to_none)
            loss_of(model, step).backward()
            optimizer.synchronize()
            nn.utils.clip_grad_value_(model.parameters(), 0.01)
            with optimizer.skip_synchronize():
                optimizer.step()
            averaged.update_parameters(model)
        compare("weights", model, expected)
        compare("average of the weights", averaged, expected_average)


def check_gradients_lie_side_by_side_after_the_first_step():
    model, optimizer = distributed(gradient_as_bucket_view=True)
    train(model, optimizer, steps=3)
    if SIZE == 1:
        return
    optimizer.zero_grad()
    loss_of(model, 0).backward()
    optimizer.synchronize()
    addresses = sorted(
        (p.grad.data_ptr(), p.grad.numel() * p.grad.element_size())
        for p in model.parameters()
        if p.grad is not None
    )
    check.equal("gradients", len(addresses), 3)
    for (first, length), (second, _) in zip(addresses, addresses[1:]):
        check.equal("no gap", first + length, second)
    kept = model.common.weight.grad
    hvd.shutdown()
    check.equal("readable after shutdown", bool(torch.isfinite(kept).all()), True)
    hvd.init()
    with optimizer.skip_synchronize():
        optimizer.step()
    train(model, optimizer, steps=2)
    check.same_on_all_ranks("after init again", model.common.weight.detach().numpy())


def check_a_caller_may_replace_gradients():
    model, optimizer = distributed()
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.synchronize()
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad = parameter.grad.clone()
        with optimizer.skip_synchronize():
            optimizer.step()
        for parameter in model.parameters():
            if step % 2:
                parameter.grad = None
    compare("replaced", model, reference())


if __name__ == "__main__":
    rows.run(globals())
