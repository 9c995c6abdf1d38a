# SPDX-License-Identifier: GPL-2.0-or-later
"""Says nothing for WORK seconds, and does something meanwhile, as WAY says."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

marks = Path(os.environ["MARKS"])
way = os.environ["WAY"]
end = time.monotonic() + float(os.environ["WORK"])


def compute() -> None:
    while time.monotonic() < end:
        sum(range(10000))


def read() -> None:
    """Reads 400 KiB a second, which needs hardly any CPU."""
    block = bytes(200 * 1024)
    with (marks / f"data-{way}").open("wb+", buffering=0) as data:
        while time.monotonic() < end:
            data.write(block)
            data.seek(0)
            data.read(len(block))
            data.seek(0)
            time.sleep(1)


def in_bursts() -> None:
    """Works for a fifth of the time, as between batches that come slowly.

    A batch is so much work, which on a busy machine takes longer.
    """
    while time.monotonic() < end:
        until = time.process_time() + 0.4
        while time.process_time() < until:
            sum(range(1000))
        time.sleep(1.6)


def in_a_thread() -> None:
    thread = threading.Thread(target=compute)
    thread.start()
    thread.join()


def in_a_child() -> None:
    subprocess.run([sys.executable, __file__], env={**os.environ, "WAY": "compute"}, check=True)


(marks / f"there-{way}").touch()
{
    "compute": compute,
    "read": read,
    "bursts": in_bursts,
    "thread": in_a_thread,
    "child": in_a_child,
}[way]()
