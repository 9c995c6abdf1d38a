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


def cases():
    """Return every check on TensorFlow, and for the other backends those at 2 ranks alone."""
    found = launch.checks(PROGRAM).args[1]
    others = [case for case in found if case[0] in ("2 ranks", "launched")]
    return [
        (backend, *case)
        for backend in ("tensorflow", "torch", "jax")
        for case in (found if backend == "tensorflow" else others)
    ]


@pytest.mark.parametrize(("backend", "how", "name"), cases())
def test_interface(backend, how, name):
    pytest.importorskip(backend)
    launch.assert_passed_in(outcome(backend, how), name)
