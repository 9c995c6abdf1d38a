# SPDX-License-Identifier: Apache-2.0
"""The state that horovod.torch brings from one rank to all: objects, parameters and optimizers.

Breaks when a rank keeps its own state, or starts without one that the root has.
"""

import check
import numpy as np
import rows
import torch
from torch_values import RANK, SIZE

import horovod.torch as hvd


def check_objects():
    value = {"rank": RANK, "numbers": [RANK] * RANK}
    for root in range(SIZE):
        received = hvd.broadcast_object(value, root, name=f"object {root}")
        check.equal("broadcast_object", received["numbers"], [root] * root)
    check.equal("allgather_object", [v["rank"] for v in hvd.allgather_object(value)], range(SIZE))


def check_broadcast_parameters():
    torch.manual_seed(RANK)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for name, tensor in model.state_dict().items():
        check.same_on_all_ranks(name, tensor.numpy())
    with torch.no_grad():
        model[0].weight.add_(RANK)
    hvd.broadcast_parameters(model.named_parameters(), root_rank=SIZE - 1)
    check.same_on_all_ranks("from the last", model[0].weight.detach().numpy())
    with torch.no_grad():
        model[0].bias.add_(RANK)
    hvd.broadcast_parameters(list(model.parameters()), root_rank=0)
    check.same_on_all_ranks("without names", model[0].bias.detach().numpy())
    check.raises(TypeError, lambda: hvd.broadcast_parameters({"x": 3}, 0))
    if SIZE > 1:
        names = ["a", "b"] if RANK == SIZE - 1 else ["b", "a"]
        tensors = [(name, torch.zeros(3)) for name in names]
        text = check.raises(hvd.HorovodInternalError, lambda: hvd.broadcast_parameters(tensors, 0))
        check.equal("it names ranks", "; ranks [" in text, True)


def check_broadcast_optimizer_state():
    kinds = [
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
        (torch.optim.Adam, {"lr": 0.1, "amsgrad": True}),
        (torch.optim.AdamW, {"lr": 0.1}),
        (torch.optim.Adamax, {"lr": 0.1}),
        (torch.optim.NAdam, {"lr": 0.1}),
        (torch.optim.RAdam, {"lr": 0.1}),
        (torch.optim.Adagrad, {"lr": 0.1}),
        (torch.optim.Adadelta, {"lr": 0.1}),
        (torch.optim.RMSprop, {"lr": 0.1, "centered": True, "momentum": 0.5}),
        (torch.optim.Rprop, {"lr": 0.1}),
        (torch.optim.ASGD, {"lr": 0.1}),
        (torch.optim.LBFGS, {"lr": 0.1}),
    ]
    for kind, options in kinds:
        torch.manual_seed(RANK)
        model = torch.nn.Linear(3, 2)
        settings = {**options, "lr": options["lr"] * (RANK + 1)}
        optimizer = kind(model.parameters(), **settings)
        # The root has made steps, the last rank none, so it has no state at all.
        for _ in range(2 if RANK == 0 else SIZE - 1 - RANK):

            def closure(model=model, optimizer=optimizer):
                optimizer.zero_grad()
                loss = model(torch.ones(4, 3)).square().sum()
                loss.backward()
                return loss

            optimizer.step(closure)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        check.equal("learning rate", optimizer.param_groups[0]["lr"], 0.1)
        states = hvd.allgather_object(optimizer.state_dict())
        for state in states:
            check.equal(kind.__name__, repr(state), repr(states[0]))
        check.equal("there is a state", len(states[-1]["state"]) > 0, True)


def check_gradients_are_zeros_after_the_broadcast_of_a_new_state():
    class Words(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(4, 3, sparse=True)
            self.scale = torch.nn.Parameter(torch.ones(3))
            self.frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)

    model = Words()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    check.equal("dense", model.words.weight.grad, np.zeros((4, 3)))
    hvd.broadcast_optimizer_state(optimizer, root_rank=0, model=model)
    check.equal("scale", model.scale.grad, np.zeros(3))
    check.equal("frozen", model.frozen.grad is None, True)
    check.equal("sparse", model.words.weight.grad.is_sparse, True)
    check.equal("rows", model.words.weight.grad.sparse_dim(), 1)
    optimizer.step()  # these gradients are such as the optimizer accepts
    check.equal("the parameters are left alone", model.scale.detach(), np.ones(3))
    model.scale.grad.fill_(1.0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0, model=model)
    check.equal("not where there is a state", model.scale.grad, np.ones(3))
    only_words = hvd.DistributedOptimizer(torch.optim.SparseAdam([model.words.weight]))
    hvd.broadcast_optimizer_state(only_words, root_rank=0)
    check.equal("for SparseAdam", model.words.weight.grad.is_sparse, True)


if __name__ == "__main__":
    rows.run(globals())
