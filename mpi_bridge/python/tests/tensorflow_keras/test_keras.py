# SPDX-License-Identifier: Apache-2.0
"""horovod.keras at 1, 2 and 4 ranks on TensorFlow, and at 2 ranks on the other backends."""

import functools

import launch
import pytest

pytest.importorskip("keras")

PROGRAM = "keras_interface.py"


@functools.cache
def outcome(backend, how):
    return launch.run(PROGRAM, how, seconds=240, KERAS_BACKEND=backend)


@pytest.mark.parametrize("backend", ["tensorflow", "torch", "jax"])
@launch.checks(PROGRAM)
def test_interface(how, name, backend):
    pytest.importorskip(backend)
    if backend != "tensorflow" and how in ("1 rank", "4 ranks"):
        pytest.skip("the number of ranks is checked on TensorFlow")
    launch.assert_passed_in(outcome(backend, how), name)
