# SPDX-License-Identifier: Apache-2.0
"""The two backends of torch.distributed at 2 and 4 ranks, beside ranks/torch_distributed.py."""

import launch
import pytest

pytest.importorskip("torch")

# torch_groups.py ends the default group, so it comes last.
OPERATIONS = ("torch_points.py", "torch_arguments.py", "torch_ddp.py", "torch_groups.py")
ALL = ("torch_points.py", "torch_parallel.py", *OPERATIONS[1:])
DDP = ("torch_ddp.py",)
COMPILED = ("torch_compiled.py",)
REPLICAS = ("torch_ddp_replicas.py",)

backends = pytest.mark.parametrize("backend", ["native", "python"])


def assert_passed(programs, how, name, backend, **environment):
    environment["MPI_BRIDGE_TORCH_BACKEND"] = backend
    launch.assert_passed(programs, how, name, **environment)


@backends
@launch.checks(*OPERATIONS, hows=("2 ranks",))
def test_operations_of_two_ranks(how, name, backend):
    assert_passed(OPERATIONS, how, name, backend)


@backends
@launch.checks(*ALL, hows=("4 ranks", "launched"))
def test_operations_and_training_of_four_ranks(how, name, backend):
    assert_passed(ALL, how, name, backend)


@backends
@launch.checks(*DDP, hows=("2 ranks",))
def test_training_while_torch_compares_the_calls_of_all_ranks(how, name, backend):
    assert_passed(DDP, how, name, backend, TORCH_DISTRIBUTED_DEBUG="DETAIL")


@backends
@launch.checks(*REPLICAS, hows=launch.unless_full("2 ranks"))
def test_replicas_that_are_compared(how, name, backend):
    assert_passed(REPLICAS, how, name, backend)


@backends
@launch.checks(*COMPILED, hows=("2 ranks",))
def test_what_torch_compiles(how, name, backend):
    assert_passed(COMPILED, how, name, backend)


def test_ranks_with_different_backends_work_together():
    how = next((how for how in launch.LAUNCHERS if how == "2 ranks"), None)
    if how is None:
        pytest.skip("needs mpirun")
    result = launch.run("torch_two_backends.py", how)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("passed on 2 ranks") == 1
