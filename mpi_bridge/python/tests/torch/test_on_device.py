# SPDX-License-Identifier: Apache-2.0
"""The programs that tests/gpu/run starts on a GPU, here on the CPU, so that they stay right."""

import os
import signal
import subprocess
import sys
import time

import launch
import pytest

pytest.importorskip("torch")
HOROVOD, DDP = "device/horovod_on_device.py", "device/ddp_on_device.py"
KILLED = launch.RANKS / "device" / "killed_on_device.py"
SPEED = launch.RANKS / "device" / "ddp_speed.py"
START = launch.RANKS.parents[3] / "tests" / "gpu" / "start_ranks.py"


@launch.checks(HOROVOD)
def test_horovod(how, name):
    launch.assert_passed((HOROVOD,), how, name, TEST_DEVICE="cpu")


@launch.checks(DDP)
def test_torch_distributed(how, name):
    launch.assert_passed((DDP,), how, name, TEST_DEVICE="cpu")


def start(*arguments):
    paths = os.pathsep.join([str(launch.RANKS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TEST_DEVICE": "cpu", "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    return subprocess.Popen(
        [sys.executable, START, *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_killed_rank():
    with start("--killed", 1, 2, sys.executable, KILLED) as ranks:
        out, err = ranks.communicate(timeout=120)
    assert "PASSED rank 0" in out, out + err
    assert ranks.returncode == 0


def test_speed():
    with start(2, sys.executable, SPEED) as ranks:
        out, err = ranks.communicate(timeout=120)
    assert out.startswith("| step with DDP of 2 ranks"), out + err
    assert ranks.returncode == 0


@pytest.mark.parametrize(
    ("program", "status"),
    [("exit 0", 0), ('exit "$PMI_RANK"', 1), ("kill -KILL $$", 137), ('exit "${#NCCL_HOSTID}"', 0)],
)
def test_the_status_of_the_ranks(program, status):
    with start(2, "bash", "-c", program) as ranks:
        ranks.communicate(timeout=60)
    assert ranks.returncode == status


def test_each_rank_has_a_host_id():
    with start("--own-host-ids", 2, "bash", "-c", 'echo "$NCCL_HOSTID"') as ranks:
        out, _ = ranks.communicate(timeout=60)
    assert sorted(out.split()) == ["rank-0", "rank-1"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_all_ranks(number):
    with start(2, "bash", "-c", "echo $$; exec sleep 300") as ranks:
        started = [int(ranks.stdout.readline()) for _ in range(2)]
        ranks.send_signal(number)
        ranks.communicate(timeout=60)
    # Those of a launcher that is killed end a moment later.
    for _ in range(50):
        left = [each for each in started if os.path.exists(f"/proc/{each}")]
        if not left:
            break
        time.sleep(0.1)
    assert left == []
