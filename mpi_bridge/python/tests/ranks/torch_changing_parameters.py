# SPDX-License-Identifier: Apache-2.0
"""Parameters that a script freezes, unfreezes, adds or replaces between steps (horovod.torch).

Breaks when the gradient of one is not reduced, so that the ranks' models drift apart without an
error, or when ranks wait for a gradient that one of them does not compute.
"""

import gc
import weakref

import check
import rows
import torch
from torch import nn
from torch_model import RANK, SIZE, wrap

import horovod.torch as hvd

MODES = [
    {},
    {"groups": 2},
    {"num_groups": 2},
    {"backward_passes_per_step": 2},
    {"compression": hvd.Compression.fp16},
    {"op": hvd.Sum},
    {"op": hvd.Adasum},
    {"gradient_as_bucket_view": True},
    {"process_set": hvd.global_process_set},
]


class Layers(nn.Module):
    def __init__(self, sparse=False):
        super().__init__()
        self.words = nn.Embedding(6, 4, sparse=sparse)
        self.base = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, words):
        return self.head(self.base(self.words(words)).tanh())


def make(seed=1, **options):
    torch.manual_seed(seed)
    return Layers(**options)


def freeze(layer, is_frozen=True):
    for parameter in layer.parameters():
        parameter.requires_grad_(not is_frozen)


def take_steps(model, optimizer, count, passes=1):
    for step in range(count):
        optimizer.zero_grad()
        for each in range(passes):
            words = torch.tensor([(RANK + step + each) % 6, (2 * RANK + 1) % 6])
            (model(words).square().mean() * (RANK + 1)).backward()
        optimizer.step()


def passes_of(options):
    return options.get("backward_passes_per_step", 1)


def require_equal_models(what, model):
    for name, parameter in model.named_parameters():
        check.same_on_all_ranks(f"{what}: {name}", parameter.detach().numpy())


def require_moved(what, parameter, before):
    check.equal(f"{what}: it is trained", bool((parameter != before).any()), True)


def optimizer_of(model, parameters=None, **options):
    plain = torch.optim.SGD(parameters or model.parameters(), lr=0.1, momentum=0.9)
    return plain, wrap(plain, model.named_parameters(), **options)


def check_layers_that_are_unfrozen():
    for options in MODES:
        model = make()
        freeze(model.base)
        _, optimizer = optimizer_of(model, **options)
        take_steps(model, optimizer, 2, passes_of(options))
        before = model.base.weight.detach().clone()
        freeze(model.base, is_frozen=False)
        take_steps(model, optimizer, 3, passes_of(options))
        require_moved(f"{options}", model.base.weight, before)
        require_equal_models(f"{options}", model)


def check_an_unfrozen_layer_is_trained_as_in_one_process():
    words = torch.arange(6)
    models = []
    for is_distributed in (True, False):
        model = make()
        freeze(model.base)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        if is_distributed:
            optimizer = wrap(optimizer, model.named_parameters())
        for step in range(5):
            if step == 2:
                freeze(model.base, is_frozen=False)
            optimizer.zero_grad()
            model(words).square().mean().backward()
            optimizer.step()
        models.append(model)
    for name, parameter in models[0].named_parameters():
        expected = models[1].get_parameter(name).detach()
        check.close(name, parameter.detach(), expected, 1e-6)


def check_a_sparse_layer_that_is_unfrozen():
    for options in ({}, {"sparse_as_dense": True}, {"groups": 2}):
        model = make(sparse=True)
        freeze(model.words)
        plain = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer = wrap(plain, model.named_parameters(), **options)
        take_steps(model, optimizer, 2)
        before = model.words.weight.detach().clone()
        freeze(model.words, is_frozen=False)
        take_steps(model, optimizer, 3)
        require_moved(f"{options}", model.words.weight, before)
        require_equal_models(f"{options}", model)


def check_layers_that_are_frozen_and_unfrozen_again():
    for options in MODES:
        for set_to_none in (True, False):
            model = make()
            _, optimizer = optimizer_of(model, **options)
            take_steps(model, optimizer, 2, passes_of(options))
            freeze(model.base)
            optimizer.zero_grad(set_to_none=set_to_none)
            take_steps(model, optimizer, 2, passes_of(options))
            freeze(model.base, is_frozen=False)
            before = model.base.weight.detach().clone()
            take_steps(model, optimizer, 2, passes_of(options))
            require_moved(f"{options}", model.base.weight, before)
            require_equal_models(f"{options}", model)


def check_a_layer_that_one_rank_freezes():
    """It counts as a rank without that gradient, as in Horovod."""
    for options in MODES:
        model = make()
        _, optimizer = optimizer_of(model, **options)
        take_steps(model, optimizer, 2, passes_of(options))
        freeze(model.base, is_frozen=RANK == SIZE - 1)
        take_steps(model, optimizer, 2, passes_of(options))
        require_equal_models(f"frozen: {options}", model)
        freeze(model.base, is_frozen=False)
        take_steps(model, optimizer, 2, passes_of(options))
        require_equal_models(f"unfrozen: {options}", model)
        freeze(model.base, is_frozen=RANK != 0)
        freeze(model.head, is_frozen=RANK == 0)
        take_steps(model, optimizer, 2, passes_of(options))
        require_equal_models(f"another on each rank: {options}", model)


def check_layers_that_are_frozen_between_backward_and_step():
    for options in ({}, {"backward_passes_per_step": 2}, {"op": hvd.Adasum}):
        model = make()
        _, optimizer = optimizer_of(model, **options)
        for _ in range(3):
            optimizer.zero_grad()
            freeze(model.base, is_frozen=False)
            model(torch.tensor([RANK % 6])).square().mean().backward()
            freeze(model.base)
            optimizer.step()
            require_equal_models(f"{options}", model)


def check_parameters_that_are_added():
    """By the wrapped optimizer, by the one inside, and in the list of groups itself."""
    ways = [
        lambda plain, wrapped, group: wrapped.add_param_group(group),
        lambda plain, wrapped, group: plain.add_param_group(group),
        lambda plain, wrapped, group: wrapped.param_groups[0]["params"].extend(group["params"]),
    ]
    for options in MODES:
        for way in ways:
            model = make()
            parameters = [*model.words.parameters(), *model.head.parameters()]
            plain, optimizer = optimizer_of(model, parameters, **options)
            take_steps(model, optimizer, 2, passes_of(options))
            before = model.base.weight.detach().clone()
            model.base.zero_grad()
            way(plain, optimizer, {"params": list(model.base.parameters())})
            take_steps(model, optimizer, 3, passes_of(options))
            require_moved(f"{options}", model.base.weight, before)
            require_equal_models(f"{options}", model)


def check_parameters_that_are_replaced():
    for options in MODES:
        model = make()
        _, optimizer = optimizer_of(model, **options)
        take_steps(model, optimizer, 2, passes_of(options))
        old = dict(model.named_parameters())
        torch.manual_seed(2)
        model.base = nn.Linear(4, 4)
        new = dict(model.named_parameters())
        names = {parameter: name for name, parameter in old.items()}
        for group in optimizer.param_groups:
            group["params"] = [new[names[parameter]] for parameter in group["params"]]
        before = model.base.weight.detach().clone()
        take_steps(model, optimizer, 3, passes_of(options))
        require_moved(f"{options}", model.base.weight, before)
        require_equal_models(f"{options}", model)


def check_replaced_parameters_are_released():
    for options in ({}, {"op": hvd.Adasum}, {"gradient_as_bucket_view": True}):
        model = make(sparse="op" not in options)
        optimizer = wrap(torch.optim.SGD(model.parameters(), lr=0.1), **options)
        replaced = []
        for _ in range(3):
            layer = nn.Embedding(6, 4, sparse=model.words.sparse)
            layer.weight = nn.Parameter(torch.ones(6, 4))
            replaced.append(weakref.ref(layer.weight))
            model.words = layer
            optimizer.param_groups[0]["params"][0] = layer.weight
            take_steps(model, optimizer, 2)
        del layer
        gc.collect()
        check.equal(f"{options}", [each() is None for each in replaced], [True, True, False])


def check_the_old_gradient_of_a_frozen_parameter_stays():
    for options in ({}, {"gradient_as_bucket_view": True}):
        model = make()
        _, optimizer = optimizer_of(model, **options)
        take_steps(model, optimizer, 2)
        freeze(model.base)
        old = model.base.weight.grad.clone()
        for _ in range(2):
            optimizer.synchronize()
            check.equal(f"{options}", model.base.weight.grad, old)


def check_parameters_that_only_one_rank_adds_are_an_error():
    if SIZE == 1:
        return
    for options in ({}, {"op": hvd.Adasum}, {"gradient_as_bucket_view": True}):
        model = make()
        _, optimizer = optimizer_of(model, list(model.head.parameters()), **options)
        take_steps(model, optimizer, 2)
        if RANK == 0:
            optimizer.add_param_group({"params": list(model.base.parameters())})
        check.raises(hvd.HorovodInternalError, lambda: take_steps(model, optimizer, 1))  # noqa: B023


def check_parameters_that_only_one_rank_replaces_are_an_error():
    if SIZE == 1:
        return
    for options in ({}, {"op": hvd.Adasum}):
        model = make()
        _, optimizer = optimizer_of(model, **options)
        take_steps(model, optimizer, 2)
        if RANK == 0:
            model.head = nn.Linear(4, 2)
            optimizer.param_groups[0]["params"][-2:] = list(model.head.parameters())
        check.raises(hvd.HorovodInternalError, lambda: take_steps(model, optimizer, 1))  # noqa: B023


def check_layers_that_are_unfrozen_after_a_rank_has_joined():
    model = make()
    freeze(model.base)
    _, optimizer = optimizer_of(model, list(model.head.parameters()))
    take_steps(model, optimizer, 1)
    if RANK:
        freeze(model.base, is_frozen=False)
        optimizer.add_param_group({"params": list(model.base.parameters())})
        take_steps(model, optimizer, 2)
    hvd.join()
    hvd.broadcast_parameters(model.state_dict(), root_rank=SIZE - 1)


def check_a_rank_whose_first_step_comes_after_a_join():
    for options in MODES:
        if options.get("op") == hvd.Adasum:
            continue  # its steps cannot run while a rank has joined
        model = make()
        _, optimizer = optimizer_of(model, **options)
        if RANK:
            take_steps(model, optimizer, 2, passes_of(options))
        hvd.join()
        hvd.broadcast_parameters(model.state_dict(), root_rank=SIZE - 1)
        hvd.broadcast_optimizer_state(optimizer, root_rank=SIZE - 1)
        take_steps(model, optimizer, 3, passes_of(options))
        require_equal_models(f"{options}", model)


def check_unfrozen_in_a_process_set():
    if SIZE == 1:
        return
    first = hvd.add_process_set([0])
    rest = hvd.add_process_set(range(1, SIZE))
    for process_set in (first, rest):
        model = make(seed=3)
        freeze(model.base)
        _, optimizer = optimizer_of(model, process_set=process_set)
        if not process_set.included():
            continue
        take_steps(model, optimizer, 2)
        freeze(model.base, is_frozen=False)
        take_steps(model, optimizer, 2)
        everyone = hvd.allgather(model.base.weight.detach()[None], process_set=process_set)
        for other in everyone:
            check.equal("within the set", other, everyone[0])
    check.equal("remove", hvd.remove_process_set(rest), True)
    check.equal("remove", hvd.remove_process_set(first), True)


def check_the_state_is_that_of_the_optimizer_inside():
    """A scheduler that was made for either drives the one that trains, also after a reload."""
    for of_the_plain_one in (True, False):
        for loads in (None, 0, 1):
            model = make()
            both = plain, optimizer = optimizer_of(model)
            scheduled = plain if of_the_plain_one else optimizer
            scheduler = torch.optim.lr_scheduler.StepLR(scheduled, step_size=1, gamma=0.5)
            take_steps(model, optimizer, 1)
            if loads is not None:
                both[loads].load_state_dict(both[loads].state_dict())
            scheduler.step()
            check.equal("learning rate", optimizer.param_groups[0]["lr"], 0.05)
            check.equal("one state", plain.state is optimizer.state, True)


def check_named_parameters_that_are_missing_are_named():
    model = make()
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    text = check.raises(ValueError, lambda: wrap(plain, model.head.named_parameters()))
    check.equal("which", "parameter 0 of group 0, of shape (6, 4)" in text, True)


if __name__ == "__main__":
    rows.run(globals())
