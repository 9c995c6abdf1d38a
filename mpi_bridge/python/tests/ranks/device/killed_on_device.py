# SPDX-License-Identifier: Apache-2.0
"""A rank is killed while the others wait for it; they must hear of it, and end.

On a GPU all ranks have enqueued the operation when the rank is killed, and its device is still busy
with something else. So a kernel of NCCL waits for it on the others' devices.

Breaks when that kernel is not ended, so that the process never is.
"""

import os
import signal
import threading
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


def reduce():
    hvd.allreduce_(tensor, op=hvd.Average, name="tensor")


for _ in range(5):
    reduce()
check.equal("before", tensor.cpu(), torch.ones(1 << 20))
if hvd.rank() == LAST:
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGKILL)).start()
    if DEVICE.type == "cuda":
        # Some seconds of the device, which is more than is left.
        torch.cuda._sleep(10_000_000_000)
        reduce()
    time.sleep(60)


def go_on():
    while True:
        reduce()
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()


begin = time.monotonic()
text = check.raises(HorovodInternalError, go_on)
passed = time.monotonic() - begin
if passed > LONGEST:
    raise check.WrongValueError(f"it took {passed:.1f} s until {text!r} was raised")
check.equal("the text names the rank", f"rank {LAST}" in text, True)
print(f"PASSED rank {hvd.rank()} heard of it after {passed:.1f} s: {text}", flush=True)
