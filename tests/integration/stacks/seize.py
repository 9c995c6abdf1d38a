# SPDX-License-Identifier: GPL-2.0-or-later
"""Says whether this user may trace a process that forbids it to all who have no CAP_SYS_PTRACE.

Yama asks for the same capability, in the same user namespace, where its scope is 1 or 2.
Without an argument, it is such a process.
"""

import ctypes
import os
import sys
import time
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_DUMPABLE, PTRACE_SEIZE = 4, 0x4206

if len(sys.argv) == 1:
    assert libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
    (Path(os.environ["MARKS"]) / "there-0").touch()
    time.sleep(3000)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
if libc.ptrace(PTRACE_SEIZE, int(sys.argv[1]), None, None) == 0:
    print("traces it")
else:
    print(os.strerror(ctypes.get_errno()))
