# SPDX-License-Identifier: Apache-2.0
"""Elastic training whose processes outlive each other: elastic_survivors.py LOSS...

Four ranks, which meet as the environment says, train BATCHES batches and commit after each. A LOSS
is RANK:BATCH:WAY: the rank that began with this number dies in that batch, by a signal ("kill") or
an exception ("raise"), or in the reset that follows a loss in that batch ("reset"). With
RANK:BATCH:disagree nobody dies, but all ranks fail.
"""

import atexit
import os
import signal
import sys
from pathlib import Path

import check
import torch

import horovod.torch.elastic as elastic
import mpi_bridge
from horovod.common import basics
from horovod.common.exceptions import HorovodInternalError
from horovod.torch.functions import allgather_object
from horovod.torch.optimizer import DistributedOptimizer

BATCHES = 12
ITEMS = 480


def fail(way):
    if way in ("kill", "reset"):
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "raise":
        raise ValueError("something is wrong here, for a test")
    if not failed:
        failed.append(True)
        raise HorovodInternalError("the ranks disagree, for a test")


def train(state):
    global in_batch
    seen.append((state.batch, basics.size()))
    while state.batch < BATCHES:
        in_batch = state.batch
        for way in (way for rank, at, way in losses if at == state.batch and way != "reset"):
            if way == "disagree" or (FIRST_RANK, state.batch, way) in losses:
                fail(way)
        state.optimizer.zero_grad()
        state.model(torch.ones(1, 2)).sum().backward()
        state.optimizer.step()
        state.sampler.record_batch(state.batch_of_reset, 2)
        state.batch += 1
        state.batch_of_reset += 1
        state.commit()


@atexit.register
def at_the_end():
    directory = os.environ.get("BATCHAI_ELASTIC_DIRECTORY")
    if directory and list(Path(directory).glob(f"ended.*.{FIRST_RANK}")):
        print(f"rank {FIRST_RANK} has said too early that it ends", flush=True)


def on_reset():
    state.batch_of_reset = 0
    if (FIRST_RANK, in_batch, "reset") in losses:
        fail("reset")


losses = [
    (int(rank), int(batch), way) for rank, batch, way in (word.split(":") for word in sys.argv[1:])
]
basics.init()
FIRST_RANK = basics.rank()
first_size = basics.size()
in_batch, failed, seen = 0, [], []
torch.manual_seed(FIRST_RANK)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
optimizer = DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
sampler = elastic.ElasticSampler(range(ITEMS))
state = elastic.TorchState(
    model=model, optimizer=optimizer, sampler=sampler, batch=0, batch_of_reset=0
)
state.register_reset_callbacks([on_reset])
elastic.run(train)(state)
check.equal("batches", state.batch, BATCHES)
deaths = [rank for rank, _, way in losses if way != "disagree"]
check.equal("ranks", basics.size(), first_size - len(deaths))
check.equal("who is left", FIRST_RANK in deaths, False)
left = sorted(set(range(first_size)) - set(deaths))
check.equal("the new number", basics.rank(), left.index(FIRST_RANK))
check.same_on_all_ranks("the model", state.model.weight.detach().numpy())
# No function has begun anywhere but at the last commit.
for batch, size in seen[1:]:
    check.equal(f"batch {batch} with {size} ranks", batch in {at for _, at, _ in losses}, True)
# What the lost ranks had processed until then is not processed again.
sizes = {}
for batch, size in seen:
    sizes.update({each: size for each in range(batch, BATCHES)})
processed = set().union(*allgather_object(sampler.processed_indices))
check.equal("processed items", len(processed), sum(2 * size for size in sizes.values()))
mpi_bridge.barrier()
print(f"passed on rank {FIRST_RANK}, {basics.size()} ranks, process {os.getpid()}", flush=True)
