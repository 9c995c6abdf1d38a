# SPDX-License-Identifier: Apache-2.0
"""Elastic state when the hosts are to change: all ranks end at the same commit, with its state.

`elastic_hosts.py WAY STOP` trains 6 batches and commits after each ("commit"), or only calls
check_host_updates ("check"). Before batch STOP, rank 0 plays the launcher and announces a change;
the ranks must end with exit code 75 after that batch. Without STOP it goes on to the end. The
second start gets RESETS=1, because a commit of another step is loaded. "catch" stands for a script
that catches the interrupt and goes on.
"""

import json
import os
import sys
import time
from pathlib import Path

import check
import torch

import horovod.torch.elastic as elastic
from horovod.common import basics
from horovod.torch.mpi_ops import allreduce

BATCHES = 6


def announce():
    # Not atomically: the other ranks do not read it, and this one only looks later.
    path = Path(os.environ["BATCHAI_ELASTIC_DIRECTORY"]) / "hosts.json"
    update = {
        "schema": "batchai-hosts-update/v1",
        "start": os.environ["BATCHAI_ELASTIC_START"],
        "change": os.environ.get("CHANGE", "removed"),
    }
    path.write_text(json.dumps(update))
    time.sleep(1.1)  # a look a second


def train(state):
    while state.batch < BATCHES:
        if stop is not None and state.batch == stop and basics.rank() == 0:
            announce()
        state.optimizer.zero_grad()
        state.model(torch.ones(1, 2)).sum().backward()
        for parameter in state.model.parameters():
            parameter.grad.copy_(allreduce(parameter.grad))
        state.optimizer.step()
        state.batch += 1
        try:
            if way == "check":
                state.check_host_updates()
            else:
                state.commit()
        except elastic.HostsUpdatedInterrupt as interrupt:
            interrupts.append((state.batch, interrupt.skip_sync))
            if way != "catch":
                raise


basics.init()
way = sys.argv[1]
stop = int(sys.argv[2]) if len(sys.argv) > 2 else None
interrupts = []
resets = []
torch.manual_seed(basics.rank())
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
state = elastic.TorchState(model=model, optimizer=optimizer, batch=0)
state.register_reset_callbacks([lambda: resets.append(1)])
try:
    elastic.run(train)(state)
except SystemExit as end:
    if way == "catch":
        raise check.WrongValueError("the ranks end although the script goes on") from end
    check.equal("exit code", end.code, 75)
    check.equal("where they end", interrupts, [(stop + 1, os.environ.get("CHANGE") is None)])
    check.equal("left the step", basics.is_initialized(), False)
    print(f"ended after batch {state.batch}", flush=True)
    raise
check.equal("resets", len(resets), int(os.environ.get("RESETS", "0")))
check.equal("batches", state.batch, BATCHES)
check.equal("interrupts", len(interrupts), 1 if way == "catch" else 0)
check.same_on_all_ranks("the model", state.model.weight.detach().numpy())
check.passed()
if os.environ.get("BATCHAI_ELASTIC_START"):
    # Outside of the elastic function nothing could catch an interrupt.
    if basics.rank() == 0:
        announce()
    state.commit()
