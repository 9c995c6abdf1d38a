# SPDX-License-Identifier: Apache-2.0
"""The programs that tests/gpu/run starts on a GPU, here on the CPU, so that they stay right."""

import launch
import pytest

pytest.importorskip("torch")
HOROVOD, DDP = "device/horovod_on_device.py", "device/ddp_on_device.py"


@launch.checks(HOROVOD)
def test_horovod(how, name):
    launch.assert_passed((HOROVOD,), how, name, TEST_DEVICE="cpu")


@launch.checks(DDP)
def test_torch_distributed(how, name):
    launch.assert_passed((DDP,), how, name, TEST_DEVICE="cpu")
