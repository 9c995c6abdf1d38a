#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Stands in for programs of toolkits that are no longer developed: ChainerMN, CNTK, Caffe, Caffe2.

It does not train. It prints, as one line of JSON, what such a program is given: its arguments, the
variables by which it finds the other ranks, and its host. ChainerMN and CNTK learn their rank from
MPI, which asks PMIx. Caffe2 learns it from its arguments (--num_shards, --shard_id) and meets the
other processes in the directory --file_store_path: the stand-in waits there for all of them, as
Caffe2's FileStore does.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

PATIENCE_SECONDS = 60.0
VARIABLES = ("AZ_BATCHAI_TASK_INDEX", "PMIX_RANK", "PMI_RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK")


def option(name: str) -> str | None:
    """Return the value of `--name=value`, if it is among the arguments."""
    prefix = f"--{name}="
    return next((word[len(prefix) :] for word in sys.argv if word.startswith(prefix)), None)


def meet(directory: Path, shard: int, shards: int) -> int:
    """Leave a file in the directory that all processes share, and wait for those of the others."""
    (directory / f"shard-{shard}").touch()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        met = len(list(directory.glob("shard-*")))
        if met >= shards or time.monotonic() > deadline:
            return met
        time.sleep(0.05)


def main() -> int:
    """Print what the program is given."""
    given = {name: os.environ.get(name) for name in VARIABLES}
    report = {
        "program": Path(sys.argv[0]).name,
        "arguments": sys.argv[1:],
        "host": socket.gethostname(),
        **given,
    }
    store = option("file_store_path")
    if store is not None:
        shard, shards = option("shard_id"), option("num_shards")
        report["met"] = meet(Path(store), int(shard or -1), int(shards or 0))
    print(json.dumps(report), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
