# SPDX-License-Identifier: Apache-2.0
"""Tells, from the timeline, when the first transfer and the last gradient of a step happened.

Writes order.RANK.json to the directory given: of the step in which the transfers were earliest,
when the first began and when the last gradient was submitted, both in microseconds.
"""

import json
import sys
from pathlib import Path

import torch
from torch import nn

import horovod.torch as hvd

STEPS = 6
DIRECTORY = Path(sys.argv[1])


def events_of(path):
    """Yield each begin of an activity: what, the tensor's name, when."""
    text = path.read_text()
    trace = json.loads(text)
    trace = trace["traceEvents"] if isinstance(trace, dict) else trace
    rows = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in trace
        if event.get("name") == "thread_name"
    }
    for event in trace:
        if event["ph"] in ("B", "b"):
            yield event["name"], rows.get((event["pid"], event.get("tid")), ""), event["ts"]


def main():
    hvd.init()
    torch.manual_seed(0)
    # Each layer's gradient is as long as the engine's first bucket, 1 MiB.
    model = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(8)))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1e-3), model.named_parameters()
    )
    x = torch.randn(512, 512)
    for step in range(STEPS + 3):
        if step == 3:  # the plan is made
            hvd.start_timeline(str(DIRECTORY / "step"))
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    hvd.stop_timeline()
    transfers, last_gradients = [], []
    for what, tensor, when in events_of(DIRECTORY / f"step.{hvd.rank()}.json"):
        if what.endswith("_ALLREDUCE") and what.startswith(("SHM", "UCX")):
            if "gradient.7.weight" in tensor:
                transfers.append(when)
        elif "gradient.0.weight" in tensor and what in ("ALLREDUCE", "NEGOTIATE_ALLREDUCE"):
            last_gradients.append(when)
    ahead = [last - first for first, last in zip(sorted(transfers), sorted(last_gradients))]
    best = max(range(len(ahead)), key=lambda step: ahead[step])
    told = {
        "first transfer": sorted(transfers)[best],
        "last gradient": sorted(last_gradients)[best],
    }
    told["ahead by microseconds, each step"] = ahead
    (DIRECTORY / f"order.{hvd.rank()}.json").write_text(json.dumps(told))
    hvd.barrier()


main()
