# SPDX-License-Identifier: Apache-2.0
"""horovod.torch at 1, 2 and 4 ranks; all programs run once for each number, with all checks."""

import launch
import pytest

pytest.importorskip("torch")

OPERATIONS = (
    "torch_allreduce.py",
    "torch_collectives.py",
    "torch_autograd.py",
    "torch_join.py",
    "torch_state.py",
    "torch_lifecycle.py",
)
TRAINING = (
    "torch_training.py",
    "torch_gradients.py",
    "torch_sparse_gradients.py",
    "torch_optimizers.py",
    "torch_training_errors.py",
)
REPLICAS = (
    "torch_changing_parameters.py",
    "torch_check_replicas.py",
    "torch_elastic_state.py",
)


@launch.checks(*OPERATIONS, *TRAINING)
def test_at_every_number_of_ranks(how, name):
    launch.assert_passed((*OPERATIONS, *TRAINING), how, name)


@launch.checks(*REPLICAS)
def test_models_stay_the_same_on_all_ranks(how, name):
    launch.assert_passed(REPLICAS, how, name)


@launch.checks(*TRAINING, hows=launch.unless_full("2 ranks"))
def test_training_with_gradients_as_views_of_buckets(how, name):
    launch.assert_passed(TRAINING, how, name, TEST_GRADIENT_AS_BUCKET_VIEW="1")


@launch.checks("torch_overlap.py", hows=("2 ranks",))
def test_the_first_bucket_leaves_before_the_last_gradient_is_computed(how, name):
    launch.assert_passed(("torch_overlap.py",), how, name)


def test_forked_workers_do_not_harm_the_training():
    how = next((how for how in launch.LAUNCHERS if how == "2 ranks"), None)
    if how is None:
        pytest.skip("needs mpirun")
    result = launch.run("torch_forked_workers.py", how)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "passed on 2 ranks" in result.stdout
