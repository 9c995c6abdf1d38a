# SPDX-License-Identifier: GPL-2.0-or-later
"""A stand-in for NCCL's RAS: listens where that does, and answers as that does.

It notes whether somebody has come.
"""

import os
import socket
from pathlib import Path

marks = Path(os.environ["MARKS"])
name = os.environ["NAME"]
server = socket.create_server(("127.0.0.1", 28028))
(marks / f"there-{name}").touch()
while True:
    caller, _ = server.accept()
    (marks / f"called-{name}").touch()
    with caller, caller.makefile("rw") as lines:
        for line in lines:
            if line.startswith("TIMEOUT "):
                lines.write("OK\n")
            elif line == "STATUS\n":
                lines.write(f"NCCL as {name} has it\n\nCommunicators... OK\n")
                break
            lines.flush()
