# SPDX-License-Identifier: Apache-2.0
"""Training with embeddings whose gradients are sparse (horovod.torch).

Breaks when rows of other ranks are missing from a sparse gradient, or when it becomes dense.
"""

import check
import rows
import torch
from torch import nn
from torch_model import BATCH, RANK, SIZE, compare, my_part, wrap

import horovod.torch as hvd


class Words(nn.Module):
    """An embedding whose gradient is sparse, and a layer whose is not."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, 4, sparse=True)
        self.output = nn.Linear(4, 2)

    def forward(self, x):
        return self.output(self.words(x).mean(1))


def words(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randint(0, 9, (SIZE * BATCH, 3), generator=generator)


def check_sparse_gradients():

    def make():
        torch.manual_seed(1)
        return Words().double()

    def steps(model, optimizer, pick):
        for step in range(4):
            optimizer.zero_grad()
            model(pick(words(step))).square().mean().backward()
            optimizer.step()

    expected = make()
    steps(expected, torch.optim.SGD(expected.parameters(), lr=0.5), lambda x: x)
    for options in ({}, {"sparse_as_dense": True}):
        model = make()
        plain = torch.optim.SGD(model.parameters(), lr=0.5)
        optimizer = wrap(plain, model.named_parameters(), **options)
        steps(model, optimizer, my_part)
        compare(f"sparse {options}", model, expected)


def check_sparse_as_dense_leaves_a_sparse_gradient():
    def make():
        torch.manual_seed(1)
        return nn.Embedding(9, 4, sparse=True).double()

    def adam(model):
        return torch.optim.SparseAdam(list(model.parameters()), lr=0.1)

    expected = make()
    alone = adam(expected)
    for options in ({}, {"compression": hvd.Compression.bf16}, {"backward_passes_per_step": 2}):
        model = make()
        optimizer = wrap(adam(model), sparse_as_dense=True, **options)
        for step in range(4):
            optimizer.zero_grad()
            if step != 2 or RANK != 0 or SIZE == 1:  # a rank that has no gradient gets the others'
                model(my_part(words(step))).square().mean().backward()
            seen = model.weight.grad
            optimizer.synchronize()
            check.equal("layout", model.weight.grad.is_sparse, True)
            check.equal("rows", model.weight.grad.sparse_dim(), 1)
            if seen is not None:
                check.equal("the same tensor", model.weight.grad is seen, True)
            with optimizer.skip_synchronize():
                optimizer.step()
        check.same_on_all_ranks("weights", model.weight.detach().numpy())
    model = make()
    optimizer = wrap(adam(model), sparse_as_dense=True)
    for step in range(4):
        for each, its_model, pick in (
            (optimizer, model, my_part),
            (alone, expected, lambda x: x),
        ):
            each.zero_grad()
            its_model(pick(words(step))).square().mean().backward()
            each.step()
    compare("SparseAdam", model, expected)


def check_a_sparse_gradient_that_one_rank_has():
    """The others cannot know that it is sparse, in the first step or in a later one."""
    for first in (0, 2):
        for options in ({}, {"groups": 1}, {"sparse_as_dense": True}):
            model = nn.ModuleDict({"words": Words().words, "other": nn.Linear(4, 2)})
            hvd.broadcast_parameters(model.state_dict(), 0)
            plain = torch.optim.SGD(model.parameters(), lr=0.5)
            optimizer = wrap(plain, model.named_parameters(), **options)
            for step in range(5):
                optimizer.zero_grad()
                loss = model.other(torch.ones(1, 4)).sum()
                expected = torch.zeros(9, 4)
                if step >= first:
                    expected[2] += 1.0
                    expected[step] += 1.0
                    if RANK == SIZE - 1:
                        loss = loss + model.words(torch.tensor([2, step])).sum()
                loss.backward()
                optimizer.synchronize()
                gradient = model.words.weight.grad
                if step < first:
                    check.equal("no rank has one", gradient is None, True)
                    continue
                check.equal(f"layout in step {step}", gradient.is_sparse, True)
                check.close(f"step {step}, {options}", gradient.to_dense(), expected / SIZE, 1e-6)
                with optimizer.skip_synchronize():
                    optimizer.step()
            check.same_on_all_ranks("weights", model.words.weight.detach().numpy())


def check_a_sparse_gradient_that_is_dense_on_one_rank():
    """There, the script has used the same weights in another way, too."""
    model = Words().words
    hvd.broadcast_parameters(model.state_dict(), 0)
    optimizer = wrap(torch.optim.SGD(model.parameters(), lr=0.5), model.named_parameters())
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.tensor([step])).sum()
        if step == 2 and RANK == 0:
            loss = loss + model.weight.sum()
        loss.backward()
        optimizer.synchronize()
        expected = torch.full((9, 4), 1.0 / SIZE if step == 2 else 0.0)
        expected[step] += 1.0
        check.close(f"step {step}", model.weight.grad.to_dense(), expected, 1e-6)


def check_a_sparse_gradient_that_becomes_dense_on_all_ranks():
    """The script uses the same weights in another way, too, from some step on."""
    model = Words().words
    hvd.broadcast_parameters(model.state_dict(), 0)
    optimizer = wrap(torch.optim.SGD(model.parameters(), lr=0.5), model.named_parameters())
    for step in range(6):
        is_dense = step in (2, 3)
        optimizer.zero_grad()
        loss = model(torch.tensor([step])).sum()
        if is_dense:
            loss = loss + model.weight.sum()
        loss.backward()
        optimizer.synchronize()
        expected = torch.full((9, 4), float(is_dense))
        expected[step] += 1.0
        check.equal(f"layout in step {step}", model.weight.grad.is_sparse, not is_dense)
        check.close(f"step {step}", model.weight.grad.to_dense(), expected, 1e-6)


if __name__ == "__main__":
    rows.run(globals())
