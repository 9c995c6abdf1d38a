# SPDX-License-Identifier: Apache-2.0
"""Finds the exception of a host call again after a framework has turned it into its own.

What a function called by a TensorFlow graph or a compiled JAX program raises reaches the script as
tf.errors.UnknownError or JaxRuntimeError, with the text alone. Elastic training has to know the
type.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_latest: list[Exception] = []


@contextmanager
def remembered() -> Iterator[None]:
    """Remember the exception that leaves the block."""
    try:
        yield
    except Exception as error:
        _latest[:] = [error]
        raise


def cause_of(error: BaseException) -> Exception | None:
    """Return the remembered exception that a framework's error stands for, and forget it."""
    found = _latest[0] if _latest else None
    if found is None or found is error or str(found) not in str(error):
        return None
    _latest.clear()
    return found
