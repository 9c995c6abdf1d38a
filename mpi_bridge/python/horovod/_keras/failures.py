# SPDX-License-Identifier: Apache-2.0
"""Finds the original exception of a host call after a framework has replaced it by its own.

If a function called by a TensorFlow graph or a compiled JAX program raises an exception, the script
gets tf.errors.UnknownError or JaxRuntimeError, which contains only the text. Elastic training has
to know the type.
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
