# SPDX-License-Identifier: Apache-2.0
"""The last rank ends as the argument says, while the others wait for it in a collective."""

import sys
import threading
import time

import torch
import torch.distributed as dist

import mpi_bridge.torch_distributed  # noqa: F401

dist.init_process_group("mpi_bridge")
LAST = dist.get_rank() == dist.get_world_size() - 1


def inner():
    raise ValueError("on purpose")


def interrupted():
    raise KeyboardInterrupt


def exits():
    sys.exit("this text ends it")


def beside_a_thread_that_waits():
    """Python waits for this thread before it ends, and the thread for the other ranks."""
    threading.Thread(target=lambda: dist.all_reduce(torch.ones(1))).start()
    inner()


def in_a_thread():
    thread = threading.Thread(target=inner)
    thread.start()
    thread.join()
    time.sleep(0)  # a thread's exception does not end the rank
    sys.exit(3)


dist.barrier()
if LAST:
    globals()[sys.argv[1]]()
dist.barrier()
print("the barrier was passed although a rank is missing", file=sys.stderr)
