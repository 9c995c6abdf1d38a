# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/start_ranks.py: what the ranks get, how they end, and what is left of them."""

import os
import signal
import subprocess
import sys
import time

import launch
import pytest


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, launch.START_RANKS, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("program", "status"),
    [("exit 0", 0), ('exit "$PMI_RANK"', 1), ("kill -KILL $$", 137), ('exit "${#NCCL_HOSTID}"', 0)],
)
def test_the_status_of_the_ranks(program, status):
    with start(2, "bash", "-c", program) as ranks:
        ranks.communicate(timeout=600)
    assert ranks.returncode == status


def test_each_rank_has_a_host_id():
    with start("--own-host-ids", 2, "bash", "-c", 'echo "$NCCL_HOSTID"') as ranks:
        out, _ = ranks.communicate(timeout=600)
    assert sorted(out.split()) == ["rank-0", "rank-1"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_all_ranks(number):
    with start(2, "bash", "-c", "echo $$; exec sleep 300") as ranks:
        started = [int(ranks.stdout.readline()) for _ in range(2)]
        ranks.send_signal(number)
        ranks.communicate(timeout=600)
    # Those of a launcher that is killed end a moment later.
    deadline = time.monotonic() + 60
    while left := [each for each in started if os.path.exists(f"/proc/{each}")]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
