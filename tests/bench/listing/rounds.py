# SPDX-License-Identifier: GPL-2.0-or-later
"""Run on a cluster's login host by `run`: what our answers take, and Slurm's own to the same.

Arguments: how many jobs there are, and the number of rounds. Prints one JSON object a round.
"""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import time

_USER = pwd.getpwuid(os.getuid()).pw_name
_QUEUE = ("squeue", "--noheader", "--states=all", "--format=%i|%T|%r|%N|%V|%S|%e")
_ACCOUNTS = ("sacct", "--noheader", "--parsable2", "--allocations", "--duplicates")
_FIELDS = "--format=JobID,State,ExitCode,NodeList,Submit,Start,End"


def _answer(*commands: tuple[str, ...]) -> tuple[float, str]:
    output = ""
    begin = time.monotonic()
    for words in commands:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"rounds: {' '.join(words)}: {done.stderr.strip()}")
        output += done.stdout
    return time.monotonic() - begin, output


def _id_of(name: str) -> str:
    words = ("batchai", "job", "show", "--name", name, "--query", "slurmJobId", "-o", "tsv")
    return _answer(words)[1].strip()


def main() -> None:
    count, rounds = int(sys.argv[1]), int(sys.argv[2])
    ended = f"job-{count // 2}"
    ended_id, running_id = _id_of(ended), _id_of("running")
    since = "--starttime=now-6hours"
    questions = {
        "list": ("batchai", "job", "list", "--output", "table"),
        "show_ended": ("batchai", "job", "show", "--name", ended),
        "show_running": ("batchai", "job", "show", "--name", "running"),
    }
    peers = {
        "list": ((*_QUEUE, f"--user={_USER}"), (*_ACCOUNTS, f"--user={_USER}", since, _FIELDS)),
        "show_ended": ((*_ACCOUNTS, f"--jobs={ended_id}", _FIELDS),),
        "show_running": ((*_QUEUE, f"--jobs={running_id}"),),
    }
    # An answer that leaves jobs out is worth nothing.
    for commands in ((questions["list"],), peers["list"]):
        lines = len(_answer(*commands)[1].splitlines())
        if lines < count:
            sys.exit(f"rounds: {commands[0][0]} prints {lines} lines for {count} jobs")
    for number in range(rounds + 1):
        row = {}
        for name, words in questions.items():
            first, second = (f"{name}_ours", [words]), (f"{name}_slurm", list(peers[name]))
            for key, commands in (first, second) if number % 2 else (second, first):
                row[key] = _answer(*commands)[0]
        # Round 0 warms the caches.
        if number:
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
