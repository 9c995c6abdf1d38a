# SPDX-License-Identifier: GPL-2.0-or-later
"""Run inside an allocation of one node by `run`: what each way of starting a task takes.

Arguments: the bundle for crun and the number of rounds. Prints one JSON object a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

TASKS = 4
_IN_STEP = ("--overlap", "--overcommit", "--mem=0", "--input=none")


def _without_plugin() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if "batchai" not in name.lower()}


def _seconds(environment: dict[str, str], tasks: int, *command: str) -> float:
    words = ("srun", *_IN_STEP, "-n", str(tasks), *command)
    begin = time.monotonic()
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"rounds: {' '.join(words)}: {done.stderr}")
    return time.monotonic() - begin


def main() -> None:
    bundle, rounds = sys.argv[1], int(sys.argv[2])
    inside, outside = dict(os.environ), _without_plugin()
    program = ("/bin/sh", "-c", "true")
    crun = ("crun", "--root", f"/tmp/crun-{os.getuid()}", "--cgroup-manager=disabled", "run")
    for number in range(rounds + 1):
        row = {
            "plain": _seconds(outside, 1, *program),
            "first": _seconds(inside, 1, *program),
            "crun": _seconds(outside, 1, *crun, "--bundle", bundle, f"bench-{number}"),
        }
        words = ("srun", *_IN_STEP, "-n", "1", "/bin/sh", "-c", "sleep 30")
        with subprocess.Popen(words, env=inside) as holder:
            time.sleep(0.5)
            row["warm"] = _seconds(inside, 1, *program)
            row["warm_tasks"] = _seconds(inside, TASKS, *program)
            row["plain_tasks"] = _seconds(outside, TASKS, *program)
            holder.terminate()
        # Round 0 warms the caches.
        if number:
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
