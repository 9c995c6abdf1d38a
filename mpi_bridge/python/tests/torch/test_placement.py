# SPDX-License-Identifier: Apache-2.0
"""Which way tensors go to the engine; the decisions need no device."""

import pytest

pytest.importorskip("torch")
from horovod.torch.placement import Way, decide


@pytest.mark.parametrize(
    ("device", "engine_device", "is_cuda", "path", "way", "reason"),
    [
        (("cpu", None), None, True, "", Way.HOST, ""),
        (("cpu", None), 0, True, "host", Way.HOST, ""),
        (("cuda", 0), None, True, "", Way.DEVICE, ""),
        (("cuda", 3), 3, True, "nccl", Way.DEVICE, ""),
        (("cuda", 0), 0, True, "staged", Way.DEVICE, ""),
        (("cuda", 1), 0, True, "", Way.STAGED, "here cuda:0, and this tensor is on cuda:1"),
        (("cuda", 0), None, True, "host", Way.STAGED, "MPI_BRIDGE_GPU_PATH=host"),
        (("cuda", 0), None, False, "", Way.STAGED, "ROCm"),
        (("mps", 0), None, True, "", Way.STAGED, "mps"),
        (("xpu", 0), 0, True, "", Way.STAGED, "xpu"),
    ],
)
def test_the_way_follows_from_the_device(device, engine_device, is_cuda, path, way, reason):
    decision = decide(*device, engine_device, is_cuda, path)
    assert decision.way is way
    assert reason in decision.reason
    assert bool(decision.reason) == (way is Way.STAGED)
