# SPDX-License-Identifier: Apache-2.0
"""The programs that tests/gpu/run starts on a GPU, here on the CPU, so that they stay right."""

import os
import subprocess
import sys

import launch
import pytest

pytest.importorskip("torch")
HOROVOD, DDP = "device/horovod_on_device.py", "device/ddp_on_device.py"
OTHERS = "device/other_libraries.py"
KILLED = launch.RANKS / "device" / "killed_on_device.py"
SPEED = launch.RANKS / "device" / "ddp_speed.py"


@launch.checks(HOROVOD, hows=launch.unless_full("2 ranks"))
def test_horovod(how, name):
    launch.assert_passed((HOROVOD,), how, name, TEST_DEVICE="cpu")


@launch.checks(DDP, hows=launch.unless_full("2 ranks"))
def test_torch_distributed(how, name):
    launch.assert_passed((DDP,), how, name, TEST_DEVICE="cpu")


@launch.checks(OTHERS, hows=("1 rank", "2 ranks"))
def test_arrays_of_other_libraries(how, name):
    launch.assert_passed((OTHERS,), how, name, TEST_DEVICE="cpu")


def start(*arguments):
    paths = os.pathsep.join([str(launch.RANKS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TEST_DEVICE": "cpu", "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    return subprocess.Popen(
        [sys.executable, launch.START_RANKS, *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_killed_rank():
    with start("--killed", 1, 2, sys.executable, KILLED) as ranks:
        out, err = ranks.communicate(timeout=600)
    assert "PASSED rank 0" in out, out + err
    assert ranks.returncode == 0


def test_speed():
    with start(2, sys.executable, SPEED) as ranks:
        out, err = ranks.communicate(timeout=600)
    assert out.startswith("| step with DDP of 2 ranks"), out + err
    assert ranks.returncode == 0
