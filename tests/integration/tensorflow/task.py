#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Stands in for a TensorFlow program: checks its wiring, and then ends as it is told.

It listens on its own port, as TensorFlow's server does, connects to every task, and waits until
every task has connected to it. It prints what it was given, and whom it has met, as one line of
JSON. `--then NAME=WHAT` says whether the task NAME, such as `worker-1`, will then end, fail or
wait. Without it, parameter servers wait and the others end.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import threading
import time

PATIENCE_SECONDS = 90.0
FAILURE = 7


def meet(address: str) -> None:
    """Connect to a task, which may not listen yet."""
    host, port = address.rsplit(":", 1)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def listen(address: str, tasks: int) -> threading.Event:
    """Listen on the port that is held for this task. The event says that all tasks have come."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("", int(address.rsplit(":", 1)[1])))
    server.listen(64)
    all_have_come = threading.Event()

    def serve() -> None:
        for _ in range(tasks):
            server.accept()[0].close()
        all_have_come.set()

    threading.Thread(target=serve, daemon=True).start()
    return all_have_come


def main() -> int:
    """Check the wiring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--as", dest="part", help="whose arguments these are")
    parser.add_argument("--then", action="append", default=[], metavar="NAME=WHAT")
    options = parser.parse_args()

    config = json.loads(os.environ["TF_CONFIG"])
    role, index = config["task"]["type"], config["task"]["index"]
    own = config["cluster"][role][index]
    everybody = [address for tasks in config["cluster"].values() for address in tasks]
    all_have_come = listen(own, len(everybody))
    for address in everybody:
        meet(address)
    if not all_have_come.wait(PATIENCE_SECONDS):
        sys.exit("some tasks have not come")
    report = {
        "name": f"{role}-{index}",
        "as": options.part,
        "host": socket.gethostname(),
        "own_host": socket.gethostbyname(socket.gethostname()) == own.rsplit(":", 1)[0],
        "met": len(set(everybody)),
        "cluster": {role: len(tasks) for role, tasks in config["cluster"].items()},
        "index": os.environ["AZ_BATCHAI_TASK_INDEX"],
        "workers": os.environ["AZ_BATCHAI_WORKER_HOSTS"].split(","),
        "ps": os.environ["AZ_BATCHAI_PS_HOSTS"],
        "own": own,
        "devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "is_rank": "WORLD_SIZE" in os.environ,
    }
    print(json.dumps(report), flush=True)

    wanted = dict(word.split("=") for word in options.then)
    what = wanted.get(f"{role}-{index}", "wait" if role == "ps" else "end")
    if what == "end":
        return 0
    if what == "wait":
        time.sleep(600)
    print(f"RuntimeError: {role} {index} fails on purpose", file=sys.stderr, flush=True)
    return FAILURE


if __name__ == "__main__":
    sys.exit(main())
