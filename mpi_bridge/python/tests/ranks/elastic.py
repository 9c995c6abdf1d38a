# SPDX-License-Identifier: Apache-2.0
"""Elastic state: commit, restore, a failure within the step, and the start of the next step.

`elastic.py first` trains half-way and leaves a commit; `elastic.py second` must go on from it.
"""

import os
import sys

import check
import torch

# Horovod's submodule must be importable by itself, before horovod.torch names it.
import horovod.torch.elastic as elastic
from horovod.common import basics
from horovod.common.exceptions import HorovodInternalError
from horovod.torch.mpi_ops import allreduce
from horovod.torch.optimizer import DistributedOptimizer

DATA = list(range(10))
BATCH = 2
LEFT_AT = 2
EPOCHS = 4


def make_state():
    torch.manual_seed(basics.rank())
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    sampler = elastic.ElasticSampler(DATA)
    return elastic.TorchState(
        model=model, optimizer=optimizer, sampler=sampler, epoch=0, seen=[], resets=0
    )


def step(state):
    """One batch whose effect on the model does not depend on the number of ranks."""
    state.optimizer.zero_grad()
    state.model(torch.ones(1, 2)).sum().backward()
    for parameter in state.model.parameters():
        parameter.grad.copy_(allreduce(parameter.grad))
    state.optimizer.step()


def train(state, epochs):
    while state.epoch < epochs:
        for number in range(0, len(state.sampler), BATCH):
            step(state)
            state.sampler.record_batch(number // BATCH, BATCH)
            state.commit()
        state.epoch += 1
        state.seen.append(state.epoch)
        state.sampler.set_epoch(state.epoch)
        state.commit()


def fail_once(state, epochs):
    """Fail between two commits, on every rank, in a way that ends no process."""
    train(state, epochs)
    if not state.resets:
        with torch.no_grad():
            state.model.weight.fill_(-1.0)
        state.epoch = -1
        state.seen.append("lost")
        raise HorovodInternalError("the ranks disagree, for a test")


def first():
    state = make_state()
    before = state.model.weight.detach().clone()

    def count_reset():
        state.resets += 1

    state.register_reset_callbacks([count_reset])
    elastic.run(fail_once)(state, LEFT_AT)
    check.equal("resets", state.resets, 1)
    check.equal("epoch", state.epoch, LEFT_AT)
    check.equal("what is seen", state.seen, [1, 2])
    check.same_on_all_ranks("the model", state.model.weight.detach().numpy())
    if torch.equal(before, state.model.weight):
        raise check.WrongValueError("the model has not changed")
    # In the middle of an epoch: half of the rank's batches.
    state.sampler.record_batch(0, BATCH)
    state.commit()
    # What comes after the commit is lost.
    state.epoch = 99


def second():
    state = make_state()
    started_at = []

    def go_on(state, epochs):
        started_at.append((state.epoch, len(state.sampler.processed_indices)))
        train(state, epochs)

    elastic.run(go_on)(state, EPOCHS)
    ranks_before = int(os.environ["RANKS_BEFORE"])
    check.equal("where it goes on", started_at, [(LEFT_AT, ranks_before * BATCH)])
    check.equal("what is seen", state.seen, [1, 2, 3, 4])
    check.same_on_all_ranks("the model", state.model.weight.detach().numpy())
    check.same_on_all_ranks("the momentum", momentum_of(state))


def momentum_of(state):
    return state.optimizer.state[state.model.weight]["momentum_buffer"].numpy()


def never_recovers():
    def fail(_state):
        calls.append(1)
        raise HorovodInternalError("always")

    calls = []
    state = elastic.ObjectState(lambda value: value, basics.rank, epoch=0)
    os.environ.pop("BATCHAI_ELASTIC_DIRECTORY")
    check.raises(HorovodInternalError, lambda: elastic.run(fail)(state))
    check.equal("tries without progress", len(calls), 3)


def fails_between_backward_and_step():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    state = elastic.TorchState(model=model, optimizer=optimizer, steps=0)
    failed = []

    def go(state):
        while state.steps < 6:
            state.optimizer.zero_grad()
            state.model(torch.ones(1, 2)).sum().backward()
            if state.steps == 3 and not failed:
                failed.append(True)
                raise HorovodInternalError("while gradients are in flight, for a test")
            state.optimizer.step()
            state.steps += 1
            state.commit()

    elastic.run(go)(state)
    check.equal("steps", state.steps, 6)
    check.same_on_all_ranks("the model", state.model.weight.detach().numpy())


def sampler_shares_out_everything():
    sampler = elastic.ElasticSampler(DATA, shuffle=False)
    everyone = elastic.state.allgather_object(list(sampler))
    given = [index for part in everyone for index in part]
    check.equal("what the ranks get", sorted(set(given)), DATA)
    check.equal("equal parts", {len(part) for part in everyone} == {len(sampler)}, True)
    sampler.record_indices(DATA[:9])
    sampler.reset()
    check.equal("the rest", list(sampler), [9])


basics.init()
if sys.argv[1] == "first":
    sampler_shares_out_everything()
    directory = os.environ.pop("BATCHAI_ELASTIC_DIRECTORY")
    fails_between_backward_and_step()
    os.environ["BATCHAI_ELASTIC_DIRECTORY"] = directory
    first()
else:
    second()
    never_recovers()
check.passed()
