# SPDX-License-Identifier: Apache-2.0
"""mpi_bridge.engine on CUDA memory at 1, 2 and 4 ranks, on the stand-in for CUDA and NCCL.

BATCHAI_STANDIN_FOLDER has the stand-in's libraries. With a device for each rank the data goes over
NCCL, with one device for all through host memory. The seeds change when the device does its work.
"""

import os
import subprocess
import sys
from pathlib import Path

import launch
import pytest

pytest.importorskip("numpy")
FOLDER = os.environ.get("BATCHAI_STANDIN_FOLDER")
pytestmark = pytest.mark.skipif(not FOLDER, reason="BATCHAI_STANDIN_FOLDER is not set")


def _environment(devices, seed):
    folder = Path(FOLDER or ".")
    return {
        "MPI_BRIDGE_CUDA_LIBRARY": str(folder / "libcuda.so.1"),
        "MPI_BRIDGE_NVRTC_LIBRARY": str(folder / "libnvrtc.so.12"),
        "MPI_BRIDGE_NCCL_LIBRARY": str(folder / "libnccl.so.2"),
        "BATCHAI_STANDIN": f"devices={devices} delay=300 seed={seed}",
    }


def _with_ranks():
    return os.pathsep.join([str(launch.RANKS), os.environ.get("PYTHONPATH", "")])


@launch.checks("device/cuda_arrays.py")
def test_a_device_for_each_rank(how, name):
    launch.assert_passed(("device/cuda_arrays.py",), how, name, **_environment(4, 1))


@launch.checks("device/cuda_arrays.py", hows=("2 ranks", "4 ranks"))
def test_one_device_for_all_ranks(how, name):
    launch.assert_passed(("device/cuda_arrays.py",), how, name, **_environment(1, 2))


def test_ranks_share_a_device_over_nccl():
    """NCCL allows it to ranks of different hosts, which an NCCL_HOSTID for each pretends."""
    programs = [launch.RANKS / "rows.py", launch.RANKS / "device" / "cuda_arrays.py"]
    ranks = subprocess.run(
        [sys.executable, launch.START_RANKS, "--own-host-ids", "2", sys.executable, *programs],
        env={**os.environ, **_environment(1, 6), "MPI_BRIDGE_GPU_PATH": "nccl"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ranks.returncode == 0, ranks.stdout + ranks.stderr
    assert ranks.stdout.count("PASSED") > 10


@launch.checks("device/join_first.py")
def test_joining_first(how, name):
    launch.assert_passed(("device/join_first.py",), how, name, **_environment(4, 3))


@launch.checks("device/join_first.py", hows=("2 ranks",))
def test_joining_first_with_one_device_for_all(how, name):
    launch.assert_passed(("device/join_first.py",), how, name, **_environment(1, 4))


def test_a_device_that_does_not_finish_is_given_up():
    result = launch.run(
        "device/leaving.py", "1 rank", PYTHONPATH=_with_ranks(), **_environment(1, 5)
    )
    assert "left" in result.stdout, result.stdout + result.stderr
    assert "has not finished the operations of process set 0 within 1 s" in result.stderr
