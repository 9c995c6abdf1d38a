# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow at 1, 2 and 4 ranks: all programs run once for each number of ranks."""

import launch
import pytest

pytest.importorskip("tensorflow")

PROGRAMS = ("tensorflow_collectives.py", "tensorflow_training.py", "tensorflow_overlap.py")


@launch.checks(*PROGRAMS)
def test_at_every_number_of_ranks(how, name):
    launch.assert_passed(PROGRAMS, how, name)
