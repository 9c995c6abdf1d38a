# SPDX-License-Identifier: Apache-2.0
"""HOROVOD_FUSION_THRESHOLD: the most bytes of gradients that travel as one operation."""

from __future__ import annotations

import os

_VARIABLE = "HOROVOD_FUSION_THRESHOLD"
_DEFAULT = 128 << 20


def fusion_threshold() -> int:
    """Return the most bytes of an operation that combines gradients; 0: nothing is combined."""
    text = os.environ.get(_VARIABLE)
    if not text:
        return _DEFAULT
    if not text.isdecimal():
        raise ValueError(f"{_VARIABLE} must be a number of bytes >= 0, not {text!r}")
    return int(text)
