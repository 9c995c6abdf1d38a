# SPDX-License-Identifier: Apache-2.0
"""Wrong use of a wrapped optimizer, and what is left after a failure (horovod.torch).

Breaks when ranks wait for each other in vain, when an error is not reported, or when it leaves a
gradient behind that no rank waits for.
"""

import warnings

import check
import rows
import torch
from torch import nn
from torch_model import RANK, SIZE, compare, distributed, loss_of, make_model, reference, sgd, wrap

import horovod.torch as hvd


class CutOnRank1:
    """Lets the gradient of length 3 be shorter on rank 1."""

    is_cutting = False

    @classmethod
    def compress(cls, tensor):
        is_cut = cls.is_cutting and RANK == 1 and tensor.shape == (3,)
        return (tensor[:2] if is_cut else tensor).clone(), None

    @staticmethod
    def decompress(tensor, context):
        return tensor


def check_no_rank_waits_in_a_hook():
    model, optimizer = distributed()
    for step in range(3):
        optimizer.zero_grad()
        loss = loss_of(model, step)
        # One rank after the other: a hook that waited for the others would never return.
        for turn in range(SIZE):
            if turn == RANK:
                loss.backward()
            hvd.barrier()
        optimizer.step()
    compare("one rank after the other", model, reference(steps=3))


def check_one_failed_gradient_leaves_no_other_behind():
    if SIZE == 1:
        return
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3), nn.Linear(3, 2))
    optimizer = wrap(torch.optim.SGD(model.parameters(), lr=0.1), compression=CutOnRank1)
    for step in range(3):
        CutOnRank1.is_cutting = step == 1
        optimizer.zero_grad()
        model(torch.full((1, 4), RANK + step + 1.0)).sum().backward()
        own = [parameter.grad.clone() for parameter in model.parameters()]
        if CutOnRank1.is_cutting:
            text = check.raises(hvd.HorovodInternalError, optimizer.synchronize)
            check.equal("it names the gradient", "gradient." in text, True)
        else:
            optimizer.synchronize()
        for parameter, gradient in zip(model.parameters(), own):
            if parameter.shape != (3,) or not CutOnRank1.is_cutting:
                check.equal("reduced", parameter.grad, hvd.allreduce(gradient))


def check_more_passes_than_announced_are_an_error():
    if SIZE == 1:
        return
    model, optimizer = distributed()
    loss_of(model, 0).backward()
    check.raises(AssertionError, optimizer.zero_grad)
    check.raises(AssertionError, lambda: loss_of(model, 0).backward())
    optimizer.synchronize()
    optimizer.zero_grad()
    optimizer.set_backward_passes_per_step(2)
    loss_of(model, 0).backward()
    loss_of(model, 0).backward()
    optimizer.synchronize()


def check_a_second_reduction_is_warned_of():
    model, optimizer = distributed()
    text = (
        r"optimizer\.step\(\) called without optimizer\.skip_synchronize\(\) context after "
        r"optimizer\.synchronize\(\)\. "
    )
    loss_of(model, 0).backward()
    optimizer.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message=text)
        check.raises(UserWarning, optimizer.step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with optimizer.skip_synchronize():
            optimizer.step()


def check_models_that_differ_are_an_error():
    if SIZE == 1:
        return
    model = make_model()
    names = [(n + "!" if RANK == 1 else n, p) for n, p in model.named_parameters()]
    wrap(sgd(model), names)
    optimizer = wrap(sgd(model), names)
    loss_of(model, 0).backward()
    text = check.raises(hvd.HorovodInternalError, optimizer.step)
    check.equal("says what differs", "DistributedOptimizer" in text, True)
    check.equal("nothing is in flight", optimizer._reducer.is_in_flight, False)


def check_wrong_use_is_refused():
    model = make_model()
    names = list(model.named_parameters())
    check.raises(ValueError, lambda: wrap(sgd(model), named_parameters=names[:1]))
    check.raises(ValueError, lambda: wrap(sgd(model), named_parameters=names + names[:1]))
    check.raises(ValueError, lambda: wrap(sgd(model), groups=-1))
    check.raises(ValueError, lambda: wrap(sgd(model), groups=[names[0][1:], names[0][1:]]))
    check.raises(ValueError, lambda: wrap(sgd(model), backward_passes_per_step=0))
    check.raises(ValueError, lambda: wrap(sgd(model), gradient_predivide_factor=2.0, op=hvd.Sum))
    check.raises(TypeError, lambda: wrap(sgd(model), compression=None))
    check.raises(NotImplementedError, lambda: wrap(torch.optim.LBFGS(model.parameters())))
    check.raises(ValueError, lambda: wrap(sgd(model), op=hvd.Max))


def check_an_unregistered_process_set_is_refused():
    # Each rank would otherwise train alone, and nothing would say so.
    if SIZE == 1:
        return
    even = hvd.ProcessSet(range(0, SIZE, 2))
    model = make_model()
    average = wrap(sgd(model), process_set=even)
    text = check.raises(ValueError, lambda: loss_of(model, 0).backward())
    check.equal("in backward", "add_process_set" in text, True)
    adasum = wrap(sgd(make_model()), process_set=even, op=hvd.Adasum)
    layer = hvd.SyncBatchNorm(2, process_set=even)
    for use in (average.step, average.synchronize, adasum.step, lambda: layer(torch.ones(3, 2))):
        text = check.raises(ValueError, use)
        check.equal("says how", "add_process_set" in text, True)


if __name__ == "__main__":
    rows.run(globals())
