# SPDX-License-Identifier: Apache-2.0
"""The last rank dies of an exception under adverse conditions, which the argument names.

Its standard output may be full or closed. An excepthook above that of mpi_bridge, as
torch.distributed has one, leaves the end to a thread, because Python waits for other threads. The
one of the argument "frameless" is no Python function.
"""

import functools
import sys
import threading

import mpi_bridge

mpi_bridge.init()
mpi_bridge.barrier()
if mpi_bridge.rank() == mpi_bridge.size() - 1:
    threading.Thread(target=threading.Event().wait).start()
    inner = sys.excepthook
    sys.excepthook = lambda *what: inner(*what)
    if sys.argv[1] == "frameless":
        sys.excepthook = functools.partial(inner)
    elif sys.argv[1] == "full":
        sys.stdout = open("/dev/full", "w")  # noqa: SIM115
        print("this cannot be written")
    else:
        sys.stdout.close()
    raise ValueError("this rank fails on purpose")
mpi_bridge.barrier()
print("the barrier was passed although a rank is missing", file=sys.stderr)
