# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints lines of progress, then a progress bar, and then only spins and prints others."""

import os
import sys
import time
from pathlib import Path

(Path(os.environ["MARKS"]) / "there-0").touch()
for step in range(3):
    print(f"step {step}", flush=True)
    time.sleep(1)
for step in range(3, 16):
    sys.stdout.write(f"\rstep {step}")
    sys.stdout.flush()
    time.sleep(1)


def spin() -> None:
    while True:
        print("still here", flush=True)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            pass


print("\nends its steps", flush=True)
spin()
