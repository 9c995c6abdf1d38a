# SPDX-License-Identifier: GPL-2.0-or-later
"""Trains a small model with horovod.torch for some seconds, on the GPU of the job if it has one.

Prints a line per rank: its device, the losses, and whether all ranks have the same parameters.
"""

import sys
import time

import horovod.torch as hvd
import torch
from torch import nn

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
BATCH, WIDTH, LEAST_STEPS = 256, 512, 20

hvd.init()
rank, size = hvd.rank(), hvd.size()
on_gpu = torch.cuda.is_available()
device = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count()) if on_gpu else "cpu"
if on_gpu:
    torch.cuda.set_device(device)

torch.manual_seed(rank)  # the broadcast gives all ranks the parameters of the first one
model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1)).to(device)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.05), named_parameters=model.named_parameters()
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
inputs = torch.randn(BATCH, WIDTH, device=device)
targets = inputs[:, :8].sum(1, keepdim=True)

losses = []
end = time.monotonic() + SECONDS
while True:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    # One rank's clock decides, so that all take the same steps.
    more = torch.tensor([float(len(losses) < LEAST_STEPS or time.monotonic() < end)])
    if hvd.broadcast(more, root_rank=0, name="more").item() == 0:
        break

mine = torch.cat([value.detach().flatten() for value in model.parameters()]).cpu()
everyones = hvd.allgather(mine.unsqueeze(0))
same = all(torch.equal(everyones[0], other) for other in everyones)
name = torch.cuda.get_device_name(device) if on_gpu else "no GPU"
print(
    f"rank {rank} of {size} on {device} ({name}): loss {losses[0]:.4f} -> {losses[-1]:.4f},"
    f" {len(losses)} steps, replicas {'equal' if same else 'DIFFER'}",
    flush=True,
)
if losses[-1] >= losses[0] or not same:
    sys.exit("the loss has not fallen, or ranks have different parameters")
