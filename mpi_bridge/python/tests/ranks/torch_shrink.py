# SPDX-License-Identifier: Apache-2.0
"""Four ranks become fewer by dist.shrink_group(): torch_shrink.py PORT WAY.

They meet in a store of torch on that port, with RANK and WORLD_SIZE; or PORT is "launched".
"""

import datetime
import os
import signal
import sys

import check
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import mpi_bridge
import mpi_bridge.torch_distributed
from mpi_bridge.errors import MpiBridgeError, PeerLostError
from mpi_bridge.torch_distributed import lost_ranks

place, way = sys.argv[1:]
if place == "launched":
    mpi_bridge.init()
    RANK, SIZE = mpi_bridge.rank(), mpi_bridge.size()
else:
    RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def total():
    """Return the sum of the ranks that these processes began with."""
    tensor = torch.full((1 << 16,), float(RANK))
    dist.all_reduce(tensor)
    return tensor.unique().tolist()


def lose(lost):
    """Let one rank die while the others reduce; return what they hear of it."""
    if lost == RANK:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        for _ in range(1000):
            total()
    except PeerLostError as error:
        return error
    raise AssertionError("the loss was not noticed")


def train_a_step():
    model = DistributedDataParallel(torch.nn.Linear(3, 1))
    model(torch.full((2, 3), float(RANK))).sum().backward()
    gradient = model.module.weight.grad.clone()
    dist.broadcast(gradient, 0)
    assert torch.equal(gradient, model.module.weight.grad)


def loss():
    """Two losses, one after the other."""
    lost = lost_ranks(lose(2))
    assert lost == [2]
    dist.shrink_group(lost)
    assert (dist.get_rank(), dist.get_world_size()) == (min(RANK, 2), 3)
    assert (mpi_bridge.rank(), mpi_bridge.size()) == (min(RANK, 2), 3)
    assert total() == [0.0 + 1 + 3]
    assert dist.group.WORLD._get_backend(torch.device("cuda")).name() == "mpi_bridge"
    train_a_step()
    pair = dist.new_group([0, 2])
    if RANK in (0, 3):
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=pair)
        assert tensor.tolist() == [2.0] * 3
    # A rank is lost in the middle of a step of DDP, whose futures make the error another one.
    if RANK == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    error = None
    try:
        for _ in range(1000):
            train_a_step()
    except RuntimeError as raised:
        error = raised
    dist.shrink_group(lost_ranks(error), shrink_flags=1)
    assert total() == [1.0]
    train_a_step()


def planned():
    """A rank is left out that lives, and does not know of it."""
    total()
    if RANK == 3:
        waited = torch.ones(3)
        try:
            dist.recv(waited, 0)
        except MpiBridgeError as error:
            print(f"left out: {type(error).__name__}", flush=True)
        error = None
        try:
            total()
        except PeerLostError as raised:
            error = raised
        assert error is not None, "a rank that is left out reduces with the others"
        check.raises(ValueError, lambda: lost_ranks(ValueError("of another kind")))
        if place != "launched":  # rank 0, which then has the store, may have ended
            text = check.raises(RuntimeError, lambda: lost_ranks(error))
            check.equal(text, "go on without rank 3" in text, True)
        return
    dist.shrink_group([3])
    assert total() == [0.0 + 1 + 2]
    assert dist.get_world_size() == 3


def group():
    """A group that is not the default one becomes smaller, and the default one stays."""
    three = dist.new_group([3, 1, 0], timeout=datetime.timedelta(seconds=45), sort_ranks=False)
    if RANK in (0, 3):
        smaller = dist.shrink_group([1], group=three)
        assert smaller.size() == 2
        assert smaller.rank() == (3, 0).index(RANK)
        tensor = torch.full((3,), float(RANK))
        dist.all_reduce(tensor, group=smaller)
        assert tensor.tolist() == [3.0] * 3
    assert total() == [0.0 + 1 + 2 + 3]
    late = dist.new_group([0, 1, 3])
    lose(2)
    if RANK in (0, 1):
        text = check.raises(PeerLostError, lambda: dist.shrink_group([2], group=late))
        check.equal(text, "shrink the default group instead" in text, True)
    dist.shrink_group([2])
    assert total() == [0.0 + 1 + 3]


def again():
    """The first attempt fails because a rank is dead that nobody left out."""
    error = lose(2)
    os.environ["MPI_BRIDGE_TIMEOUT_SECONDS"] = "3"
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    text = check.raises(MpiBridgeError, lambda: dist.shrink_group([2]))
    check.equal(text, "do not meet without [2]" in text, True)
    lost = lost_ranks(error, patience=3.0)
    assert lost == [1, 2]
    os.environ["MPI_BRIDGE_TIMEOUT_SECONDS"] = "60"
    dist.shrink_group(lost)
    assert total() == [0.0 + 3]


if place == "launched":
    dist.init_process_group("mpi_bridge")
else:
    store = dist.TCPStore("127.0.0.1", int(place), is_master=False)
    dist.init_process_group("mpi_bridge", store=store, rank=RANK, world_size=SIZE)
{each.__name__: each for each in (loss, planned, group, again)}[way]()
print(f"passed on rank {RANK}", flush=True)
