# SPDX-License-Identifier: Apache-2.0
"""MPI_BRIDGE_CHECK_REPLICAS: models that drift apart end with an error (horovod.torch).

Breaks when a difference in a single bit is not seen, when equal models are an error, or when the
error does not name the tensor and the ranks.
"""

import os
import struct

import check
import rows
import torch
from torch_model import BATCH, RANK, SIZE, distributed, loss_of, make_model, sgd, train, wrap

import horovod.torch as hvd
from mpi_bridge import replicas, torch_replicas

EVERY = 3
LAST = SIZE - 1


class Switched:
    """Sets the variable for a while."""

    def __init__(self, text):
        self._text = text

    def __enter__(self):
        os.environ[replicas.VARIABLE] = self._text

    def __exit__(self, *_):
        del os.environ[replicas.VARIABLE]


def change(parameter, bits):
    """Give the first element these bits on the last rank."""
    if RANK == LAST:
        with torch.no_grad():
            parameter.view(torch.int64).view(-1)[0] = bits


def bits_of(number):
    return struct.unpack("<q", struct.pack("<d", number))[0]


def check_equal_models_are_no_error():
    for options in (
        {},
        {"op": hvd.Adasum},
        {"gradient_as_bucket_view": True},
        {"backward_passes_per_step": 2},
    ):
        with Switched("1"):
            model, optimizer = distributed(**options)
            train(model, optimizer, steps=2 * EVERY)


def check_a_difference_is_named_with_its_ranks():
    if SIZE == 1:
        return
    for op in (hvd.Average, hvd.Adasum):
        with Switched(str(EVERY)):
            model, optimizer = distributed(op=op)
            train(model, optimizer, steps=1)
            change(model.rare, bits_of(2.0))
            train(model, optimizer, steps=1)
            text = check.raises(hvd.HorovodInternalError, lambda: train(model, optimizer, steps=1))  # noqa: B023
        check.equal(text, '"rare" (float64, (3,)) is not the same on all ranks' in text, True)
        others = str(list(range(LAST)))
        check.equal(text, f"one value on ranks {others}, another on [{LAST}]" in text, True)
        check.equal(text, "after step 3, " in text, True)


def check_every_bit_counts():
    """A sign of zero, the payload of a NaN, and what only a subnormal has."""
    if SIZE == 1:
        return
    cases = [(0.0, bits_of(-0.0)), (float("nan"), 0x7FF8000000000001), (0.0, 1), (1.0, None)]
    for before, bits in cases:
        with Switched("1"):
            model = make_model()
            with torch.no_grad():
                model.never.fill_(before)
            if bits is not None:
                change(model.never, bits)
            optimizer = wrap(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
            loss_of(model, 0).backward()
            if bits is None:
                optimizer.step()
                continue
            text = check.raises(hvd.HorovodInternalError, optimizer.step)
        check.equal(text, '"never"' in text, True)


def check_frozen_parameters_are_compared():
    if SIZE == 1:
        return
    with Switched("1"):
        model, optimizer = distributed()
        change(model.frozen, bits_of(3.0))
        text = check.raises(hvd.HorovodInternalError, lambda: train(model, optimizer, steps=1))
    check.equal(text, '"frozen"' in text, True)


def check_steps_without_synchronize_count():
    if SIZE == 1:
        return
    with Switched("2"):
        model, optimizer = distributed()
        for step in range(2):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            optimizer.synchronize()
            change(model.never, bits_of(5.0))
            with optimizer.skip_synchronize():
                if step == 1:
                    check.raises(hvd.HorovodInternalError, optimizer.step)
                else:
                    optimizer.step()


def check_ranks_that_have_joined():
    with Switched("1"):
        model, optimizer = distributed()
        for step in range(RANK + 1):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            optimizer.step()
    hvd.join()


def check_epochs_after_ranks_have_joined():
    """Rank r has r batches in the first epoch, and as many as the others in the second."""
    with Switched("2"):
        model, optimizer = distributed()
        train(model, optimizer, steps=RANK)
        hvd.join()
        hvd.broadcast_parameters(model.state_dict(), root_rank=LAST)
        hvd.broadcast_optimizer_state(optimizer, root_rank=LAST)
        train(model, optimizer, steps=3)
        if SIZE > 1:
            change(model.rare, bits_of(2.0))
            text = check.raises(hvd.HorovodInternalError, lambda: train(model, optimizer, steps=1))
            check.equal(text, "after step 4, " in text, True)
    hvd.join()


def check_ranks_with_different_intervals_are_an_error():
    if SIZE == 1:
        return
    for op in (hvd.Average, hvd.Adasum):
        for numbers in (("0", "1"), ("2", "3")):
            with Switched(numbers[RANK == LAST]):
                model, optimizer = distributed(op=op)
                text = check.raises(
                    hvd.HorovodInternalError,
                    lambda: train(model, optimizer, steps=1),  # noqa: B023
                )
            check.equal(text, f"rank {RANK} has {numbers[RANK == LAST]}" in text, True)


def check_a_process_set():
    if SIZE == 1:
        return
    first = hvd.add_process_set([0])
    rest = hvd.add_process_set(range(1, SIZE))
    with Switched("1"):
        model = make_model(seed=RANK == 0)
        optimizer = wrap(sgd(model), model.named_parameters(), process_set=rest)
        train(model, optimizer, steps=2)
        if SIZE > 2 and RANK:
            change(model.rare, bits_of(9.0))
            text = check.raises(hvd.HorovodInternalError, lambda: train(model, optimizer, steps=1))
            check.equal(text, f"another on [{LAST}]" in text or SIZE == 3, True)
    check.equal("remove", hvd.remove_process_set(rest), True)
    check.equal("remove", hvd.remove_process_set(first), True)


def check_a_value_that_is_no_number():
    for text in ("often", "-1", "1.5"):
        with Switched(text):
            check.raises(ValueError, replicas.interval)
    with Switched("0"):
        check.equal("off", replicas.interval(), 0)


def check_hashes():
    torch.manual_seed(0)
    long = torch.randn((1 << 21) + 3)
    kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.bool)
    tensors = [long, long.clone(), *(torch.ones(BATCH, dtype=kind) for kind in kinds)]
    tensors += [torch.ones((), dtype=torch.complex128), torch.empty(0), long.view(5, -1).t()]
    hashes = torch_replicas.hashes_of(tensors)
    check.equal("of a copy", hashes[0], hashes[1])
    check.equal("of the same bits", hashes[0] == torch_replicas.hashes_of([long.view(5, -1)])[0], 1)
    check.equal("of another order", hashes[0] == hashes[-1], False)
    check.equal("of nothing", hashes[-2], 0)
    seen = {hashes[0]}
    for position in (0, 1, (1 << 20) - 1, 1 << 20, (1 << 21) + 2):
        changed = long.clone()
        changed.view(torch.int32)[position] ^= 1
        seen.add(torch_replicas.hashes_of([changed])[0])
    changed = long.clone()
    changed[:2] = long[:2].flip(0)
    seen.add(torch_replicas.hashes_of([changed])[0])
    check.equal("all differ", len(seen), 7)


if __name__ == "__main__":
    rows.run(globals())
