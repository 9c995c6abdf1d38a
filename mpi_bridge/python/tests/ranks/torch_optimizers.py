# SPDX-License-Identifier: Apache-2.0
"""Which parameters and which ranks a wrapped optimizer is for (horovod.torch).

Breaks when optimizers take each other's gradients, when one reaches beyond its process set, or when
parameters that come later are not reduced.
"""

import check
import rows
import torch
from torch_model import (
    BATCH,
    RANK,
    SIZE,
    compare,
    data,
    distributed,
    loss_of,
    make_model,
    sgd,
    train,
    wrap,
)

import horovod.torch as hvd


def check_names_of_the_parameters():
    model = make_model()
    names = {parameter: name for name, parameter in model.named_parameters()}
    for op in (hvd.Average, hvd.Adasum):
        some = torch.optim.SGD([model.common.weight, model.rare], lr=0.1)
        optimizer = wrap(some, model.named_parameters(), op=op)
        check.equal("names", optimizer._parameter_names == names, True)
    optimizer = wrap(torch.optim.SGD([model.common.weight], lr=0.1))
    check.equal("without names", len(optimizer._parameter_names), 1)
    optimizer.add_param_group({"params": [model.rare]})
    check.equal("added later", model.rare in optimizer._current_names(), True)


def check_a_group_of_parameters_added_later():
    model = make_model()
    plain = torch.optim.SGD([model.common.weight, model.common.bias], lr=0.1)
    optimizer = wrap(plain)
    train(model, optimizer, steps=2)
    optimizer.add_param_group({"params": [model.rare], "lr": 0.01})
    train(model, optimizer, steps=3)
    for name, parameter in model.named_parameters():
        check.same_on_all_ranks(name, parameter.detach().numpy())
    check.equal("it has moved", bool((model.rare != 1).any()), True)


def check_two_optimizers_and_a_model_wrapped_again():
    first, second = make_model(), make_model(seed=4)
    one = wrap(sgd(first), first.named_parameters())
    train(first, one, steps=2)
    del one
    one = wrap(sgd(first), [(f"one.{n}", p) for n, p in first.named_parameters()])
    two = wrap(sgd(second), [(f"two.{n}", p) for n, p in second.named_parameters()])
    for step in range(4):
        one.zero_grad()
        two.zero_grad()
        (loss_of(first, step) + loss_of(second, step)).backward()
        one.step()
        two.step()
    for model in (first, second):
        check.same_on_all_ranks("weights", model.common.weight.detach().numpy())


def check_a_process_set_trains_by_itself():
    if SIZE == 1:
        return
    first = hvd.add_process_set([0])
    rest = hvd.add_process_set(range(1, SIZE))
    mine = first if RANK == 0 else rest
    for process_set in (first, rest):
        model = make_model()
        optimizer = wrap(sgd(model), process_set=process_set)
        if process_set is not mine:
            continue
        train(model, optimizer)
        everyone = hvd.allgather(model.common.weight.detach()[None], process_set=process_set)
        for other in everyone:
            check.equal("within the set", other, everyone[0])
    check.equal("remove", hvd.remove_process_set(rest), True)
    check.equal("remove", hvd.remove_process_set(first), True)


def check_ranks_with_fewer_batches_join():
    model, optimizer = distributed()
    for step in range(RANK + 1):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
    check.equal("last", hvd.join(), SIZE - 1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=SIZE - 1)


def check_adasum_optimizer():
    model, optimizer = distributed(op=hvd.Adasum)
    alone = make_model()
    plain = sgd(alone)
    same = data(0)[0][:BATCH]
    for _ in range(3):
        # All ranks see the same data, so the combined step is that of one.
        for each, its_model in ((optimizer, model), (plain, alone)):
            each.zero_grad()
            its_model(same).square().mean().backward()
            each.step()
    compare("equal steps", model, alone, 1e-10)
    train(model, optimizer, steps=2)
    check.same_on_all_ranks("weights", model.common.weight.detach().numpy())
    check.raises(AssertionError, lambda: optimizer.skip_synchronize().__enter__())


if __name__ == "__main__":
    rows.run(globals())
