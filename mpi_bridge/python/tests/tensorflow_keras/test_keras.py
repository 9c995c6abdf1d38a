# SPDX-License-Identifier: Apache-2.0
"""horovod.keras at 1 and 4 ranks on TensorFlow, and at 2 ranks on the other backends.

test_tensorflow.py has the overlap with the backward pass on TensorFlow.

With BATCHAI_TEST_FULL it also runs at 2 ranks on TensorFlow.
"""

import functools

import launch
import pytest

pytest.importorskip("keras")

PROGRAM = "keras_interface.py"


@functools.cache
def outcome(backend, how):
    return launch.run(PROGRAM, how, seconds=600, KERAS_BACKEND=backend)


def cases():
    """Return every check for each backend, with the numbers of ranks at which it runs."""
    found = launch.checks(PROGRAM).args[1]
    at_2_ranks = ("2 ranks", "launched")
    on_tensorflow = launch.unless_full("1 rank", "4 ranks")
    return [
        (backend, *case)
        for backend in ("tensorflow", "torch", "jax")
        for case in found
        if case[0] in (on_tensorflow if backend == "tensorflow" else at_2_ranks)
    ]


@pytest.mark.parametrize(("backend", "how", "name"), cases())
def test_interface(backend, how, name):
    pytest.importorskip(backend)
    launch.assert_passed_in(outcome(backend, how), name)


@launch.checks("keras_torch_overlap.py", hows=("2 ranks",))
def test_overlap_on_torch(how, name):
    pytest.importorskip("torch")
    launch.assert_passed(("keras_torch_overlap.py",), how, name)


def test_overlap_on_jax():
    pytest.importorskip("jax")
    ended = launch.run("jax_overlap.py", "2 ranks", seconds=600)
    launch.assert_passed_in(ended, "check_gradients_travel_during_backward")
