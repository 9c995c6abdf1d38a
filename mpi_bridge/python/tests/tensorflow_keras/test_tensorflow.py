# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow at 1, 2 and 4 ranks; each program runs once for each number."""

import launch
import pytest

pytest.importorskip("tensorflow")


@launch.checks("tensorflow_collectives.py")
def test_collectives(how, name):
    launch.assert_passed(("tensorflow_collectives.py",), how, name)


@launch.checks("tensorflow_training.py")
def test_training(how, name):
    launch.assert_passed(("tensorflow_training.py",), how, name)


@launch.checks("tensorflow_overlap.py")
def test_overlap(how, name):
    launch.assert_passed(("tensorflow_overlap.py",), how, name)
