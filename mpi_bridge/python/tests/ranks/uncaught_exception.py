# SPDX-License-Identifier: Apache-2.0
"""The last rank dies while the others wait for it: the step must end soon, with an error.

The caller expects a non-zero exit within seconds, and the exception's text on standard error.
"""

import sys

import mpi_bridge

mpi_bridge.init()
mpi_bridge.barrier()
if mpi_bridge.rank() == mpi_bridge.size() - 1:
    raise ValueError("this rank fails on purpose")
mpi_bridge.barrier()
print("the barrier was passed although a rank is missing", file=sys.stderr)
