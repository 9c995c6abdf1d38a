# SPDX-License-Identifier: Apache-2.0
"""What an elastic state keeps beside the model: schedulers, scalers, averages (horovod.torch).

Breaks when a scheduler of the state drives another optimizer than the one that trains, when its
state is not that of the commit, or when a copy of such an object is kept without an error.
"""

import os
import tempfile
from pathlib import Path

import check
import rows
import torch
from torch.optim import lr_scheduler

import horovod.torch as hvd
from horovod.common import basics
from horovod.torch import elastic

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
STEPS = 6
LEFT_AT = 3

# By name: a function of the optimizer, and whether step() takes a loss.
SCHEDULERS = {
    "StepLR": lambda o: lr_scheduler.StepLR(o, step_size=1, gamma=0.5),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [2, 4]),
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.5, total_steps=STEPS + 2),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=2),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o,
        [lr_scheduler.ConstantLR(o, 0.1, total_iters=2), lr_scheduler.ExponentialLR(o, 0.8)],
        milestones=[2],
    ),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.1, total_iters=2), lr_scheduler.ExponentialLR(o, 0.8)]
    ),
}


class Training:
    """A model with everything that trains it; `of` is what the scheduler is made for."""

    def __init__(self, make_scheduler, of="wrapped"):
        torch.manual_seed(RANK)
        self.model = torch.nn.Linear(2, 1)
        plain = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        if of == "plain before":
            self.scheduler = make_scheduler(plain)
        self.optimizer = hvd.DistributedOptimizer(plain, self.model.named_parameters())
        if of != "plain before":
            self.scheduler = make_scheduler(plain if of == "plain" else self.optimizer)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
        self.average = torch.optim.swa_utils.AveragedModel(self.model)

    def state(self):
        return elastic.TorchState(
            model=self.model,
            optimizer=self.optimizer,
            scheduler=self.scheduler,
            scaler=self.scaler,
            average=self.average,
            step=0,
            rates=[],
        )

    def step(self, number):
        self.optimizer.zero_grad()
        loss = self.model(torch.full((1, 2), number + 1.0)).square().mean()
        self.scaler.scale(loss).backward()
        self.optimizer.synchronize()
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)
        with self.optimizer.skip_synchronize():
            self.scaler.step(self.optimizer)
        self.scaler.update()
        self.average.update_parameters(self.model)
        if isinstance(self.scheduler, lr_scheduler.ReduceLROnPlateau):
            self.scheduler.step(float(number))
        else:
            self.scheduler.step()

    def go(self, state, until):
        while state.step < until:
            state.rates.append(rate_of(self.optimizer))
            self.step(state.step)
            state.step += 1

    def values(self):
        return [
            rate_of(self.optimizer),
            self.scaler.get_scale(),
            int(self.average.n_averaged),
            *self.model.weight.detach().flatten().tolist(),
            *self.average.module.weight.detach().flatten().tolist(),
        ]


def rate_of(optimizer):
    return optimizer.param_groups[0]["lr"]


def uninterrupted(make_scheduler):
    """Return what a training without a failure has at the end, starting as rank 0 does."""
    training = Training(make_scheduler)
    state = training.state()
    state.sync()
    training.go(state, STEPS)
    return state.rates, training.values()


def require_same_end(what, training, state, expected):
    rates, values = expected
    check.equal(f"{what}: learning rates", state.rates, rates)
    check.equal(f"{what}: the rate changes", len(set(rates)) > 1, True)
    check.equal(f"{what}: all the rest", training.values(), values)
    check.equal(f"{what}: the same objects", state.scheduler is training.scheduler, True)
    check.same_on_all_ranks(what, torch.tensor(training.values()).numpy())


def check_what_is_restored_goes_on_as_if_nothing_had_been():
    for name, make_scheduler in SCHEDULERS.items():
        expected = uninterrupted(make_scheduler)
        for of in ("wrapped", "plain", "plain before"):
            training = Training(make_scheduler, of)
            state = training.state()
            state.sync()
            training.go(state, LEFT_AT)
            state.commit()
            training.go(state, STEPS)
            state.restore()
            training.go(state, STEPS)
            require_same_end(f"{name} of {of}", training, state, expected)


def check_a_failure_within_the_step():
    expected = uninterrupted(SCHEDULERS["StepLR"])
    training = Training(SCHEDULERS["StepLR"])
    state = training.state()
    failed = []

    def train(state):
        training.go(state, LEFT_AT)
        state.commit()
        training.go(state, LEFT_AT + 1)
        if not failed:
            failed.append(True)
            raise hvd.HorovodInternalError("for a test")
        training.go(state, STEPS)

    elastic.run(train)(state)
    require_same_end("after a failure", training, state, expected)


def check_a_new_start_goes_on_from_the_commit():
    with tempfile.TemporaryDirectory() as own:
        directory = hvd.broadcast_object(own, 0)
        os.environ["BATCHAI_ELASTIC_DIRECTORY"] = directory
        try:
            for name, make_scheduler in SCHEDULERS.items():
                expected = uninterrupted(make_scheduler)
                for of in ("wrapped", "plain before"):
                    _start_twice(f"{name} of {of}", make_scheduler, of, expected, Path(directory))
        finally:
            del os.environ["BATCHAI_ELASTIC_DIRECTORY"]
            hvd.barrier()


def _start_twice(what, make_scheduler, of, expected, directory):
    for until in (LEFT_AT, STEPS):
        training = Training(make_scheduler, of)  # new objects, as in a new process
        state = training.state()

        def train(state, until=until, training=training):
            training.go(state, until)
            state.commit()

        elastic.run(train)(state)
    require_same_end(f"{what}, started again", training, state, expected)
    hvd.barrier()
    if RANK == 0:
        (directory / "committed.pickle").unlink()
    hvd.barrier()


def check_what_replaces_a_scheduler_is_kept():
    training = Training(SCHEDULERS["StepLR"])
    state = elastic.TorchState(optimizer=training.optimizer, scheduler=None, last=2)
    state.scheduler = training.scheduler
    state.sync()
    training.step(0)
    state.save()
    training.step(1)
    state.restore()
    check.equal("rate", rate_of(state.optimizer), 0.05)
    check.equal("epoch", training.scheduler.last_epoch, 1)
    state.scheduler = None
    state.last = SCHEDULERS["LambdaLR"](training.optimizer)
    state.save()
    check.equal("not copied", state.last.optimizer is training.optimizer, True)


def check_a_model_that_is_made_later_is_kept():
    state = elastic.TorchState(last=2)
    check.equal("neither is given", state.model is None and state.optimizer is None, True)
    state.sync()
    state.model = torch.nn.Linear(1, 1)
    with torch.no_grad():
        state.model.weight.fill_(RANK + 3.0)
    state.sync()
    with torch.no_grad():
        state.model.weight.fill_(9.0)
    state.restore()
    check.equal("of rank 0", state.model.weight.item(), 3.0)


def of_all_ranks(items):
    return sorted(item for part in hvd.allgather_object(list(items)) for item in part)


def check_the_state_of_one_sampler_is_that_of_all():
    items = list(range(5 * SIZE))
    sampler = elastic.ElasticSampler(items, seed=3)
    first_batches = of_all_ranks(list(sampler)[:4])
    for number in range(2):
        sampler.record_batch(number, 2)
    check.equal("processed", sorted(sampler.processed_indices), first_batches)
    # Rank 0 writes a checkpoint, and all ranks go on from it.
    other = elastic.ElasticSampler(items, seed=3)
    other.load_state_dict(hvd.broadcast_object(sampler.state_dict(), 0))
    check.equal("each once", sorted(first_batches + of_all_ranks(other)), items)


def check_the_state_of_horovods_sampler_is_understood():
    items = list(range(5 * SIZE))
    for shuffle in (False, True):
        sampler = elastic.ElasticSampler(items, shuffle=shuffle, seed=3)
        sampler.set_epoch(2)
        last_batch = of_all_ranks(list(sampler)[4:])
        sampler.load_state_dict({"epoch": 2, "processed_num": 4 * SIZE})
        check.equal("epoch", sampler.epoch, 2)
        check.equal("what is left", of_all_ranks(sampler), last_batch)


def check_a_commit_that_has_a_schedulers_place_as_a_plain_value():
    training = Training(SCHEDULERS["StepLR"])
    state = elastic.TorchState(optimizer=training.optimizer, scheduler=training.scheduler, last=2)
    state.adopt({"handled": {}, "plain": {"scheduler": None, "last": 3}})
    check.equal("the scheduler stays", state.scheduler is training.scheduler, True)
    check.equal("the other value", state.last, 3)


class Helper:
    """Something of a script's own that holds what trains."""

    def __init__(self, held):
        self.first = lambda: None  # cannot be pickled
        self.held = {"deep": [held]}


def check_copies_of_what_trains_are_refused():
    training = Training(SCHEDULERS["StepLR"])
    scheduler, optimizer, model = training.scheduler, training.optimizer, training.model
    cases = {
        "StepLR": ([scheduler], Helper(scheduler), {"a": (scheduler,)}, lambda: scheduler),
        "SGD": (Helper(optimizer), [torch.optim.SGD(model.parameters(), lr=0.1)]),
        "Linear": ({"model": model}, Helper(model)),
        "Parameter": (list(model.parameters()), Helper(model.weight)),
        "GradScaler": ([training.scaler],),
    }
    for kind, values in cases.items():
        for value in values:
            for make in (
                lambda value: elastic.TorchState(model=model, optimizer=optimizer, other=value),
                lambda value: elastic.ObjectState(lambda x: x, basics.rank, other=value),
            ):
                text = check.raises(TypeError, lambda: make(value))  # noqa: B023
                check.equal(text, '"other" holds a ' + kind in text, True)
    state = elastic.TorchState(model=model, optimizer=optimizer, seen=[])
    state.seen.append(scheduler)
    for action in (state.save, state.sync, state.commit):
        check.raises(TypeError, action)
    text = check.raises(
        TypeError, lambda: elastic.ObjectState(lambda x: x, basics.rank, model=model)
    )
    check.equal(text, '"model" is a Linear' in text, True)


def check_values_that_only_look_like_it_are_kept():
    training = Training(SCHEDULERS["StepLR"])
    best = training.model.state_dict()
    state = elastic.TorchState(
        model=training.model, best=best, kind=torch.nn.Linear, activation=torch.nn.ReLU()
    )
    with torch.no_grad():
        state.best["weight"].fill_(7.0)
    state.save()
    check.equal("a copy", bool((training.model.weight == 7.0).any()), False)
    state.restore()
    check.equal("kept", state.best["weight"].flatten().tolist(), [7.0, 7.0])


def check_a_scheduler_of_an_optimizer_that_is_not_kept():
    training = Training(SCHEDULERS["StepLR"])
    make = lambda **kept: elastic.TorchState(scheduler=training.scheduler, **kept)  # noqa: E731
    check.raises(TypeError, make)
    other = torch.optim.SGD(training.model.parameters(), lr=0.1)
    text = check.raises(TypeError, lambda: make(optimizer=other))
    check.equal(text, '"scheduler" (StepLR) drives an optimizer' in text, True)
    state = make(optimizer=training.optimizer)
    state.optimizer = other
    check.raises(TypeError, state.save)


def check_an_optimizer_that_reduces_is_not_copied():
    import copy

    training = Training(SCHEDULERS["StepLR"])
    for action in (copy.deepcopy, copy.copy):
        check.raises(TypeError, lambda: action(training.optimizer))  # noqa: B023


if __name__ == "__main__":
    rows.run(globals())
