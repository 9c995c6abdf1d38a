# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.distributed at 2 and 4 ranks, beside ranks/torch_distributed.py."""

import launch
import pytest

pytest.importorskip("torch")

# torch_groups.py ends the default group, so it comes last.
OPERATIONS = ("torch_points.py", "torch_ddp.py", "torch_groups.py")
ALL = ("torch_points.py", "torch_parallel.py", "torch_ddp.py", "torch_groups.py")
DDP = ("torch_ddp.py",)


@launch.checks(*OPERATIONS, hows=("2 ranks",))
def test_operations_of_two_ranks(how, name):
    launch.assert_passed(OPERATIONS, how, name)


@launch.checks(*ALL, hows=("4 ranks", "launched"))
def test_operations_and_training_of_four_ranks(how, name):
    launch.assert_passed(ALL, how, name)


@launch.checks(*DDP, hows=("2 ranks",))
def test_training_while_torch_compares_the_calls_of_all_ranks(how, name):
    launch.assert_passed(DDP, how, name, TORCH_DISTRIBUTED_DEBUG="DETAIL")


@launch.checks("torch_ddp_replicas.py", hows=("2 ranks", "4 ranks"))
def test_replicas_that_are_compared(how, name):
    launch.assert_passed(("torch_ddp_replicas.py",), how, name)
