# SPDX-License-Identifier: Apache-2.0
"""A rank is killed while the others wait for it on the device; they must hear of it, and end.

Breaks when a kernel that waits for the lost rank is not ended, so that the process never is.
"""

import os
import signal
import time

import check
import torch
from device.training import device_of

import horovod.torch as hvd
from horovod.common.exceptions import HorovodInternalError

hvd.init()
DEVICE = device_of(hvd.local_rank())
LAST = hvd.size() - 1
LONGEST = 20.0

tensor = torch.ones(1 << 20, device=DEVICE)
for _ in range(5):
    hvd.allreduce_(tensor, op=hvd.Average, name="tensor")
check.equal("before", tensor.cpu(), torch.ones(1 << 20))
if hvd.rank() == LAST:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    os.kill(os.getpid(), signal.SIGKILL)


def go_on():
    while True:
        hvd.allreduce_(tensor, op=hvd.Average, name="tensor")
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()


begin = time.monotonic()
text = check.raises(HorovodInternalError, go_on)
passed = time.monotonic() - begin
if passed > LONGEST:
    raise check.WrongValueError(f"it took {passed:.1f} s until {text!r} was raised")
check.equal("the text names the rank", f"rank {LAST}" in text, True)
print(f"PASSED rank {hvd.rank()} heard of it after {passed:.1f} s: {text}", flush=True)
