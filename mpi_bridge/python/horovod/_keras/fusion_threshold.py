# SPDX-License-Identifier: Apache-2.0
"""HOROVOD_FUSION_THRESHOLD: the most bytes of gradients that travel as one operation."""

from __future__ import annotations

import os
import re

_VARIABLE = "HOROVOD_FUSION_THRESHOLD"
_DEFAULT = 128 << 20
_SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30}  # as the library reads it, too


def fusion_threshold() -> int:
    """Return the most bytes of an operation that combines gradients; 0: nothing is combined."""
    text = os.environ.get(_VARIABLE)
    if not text:
        return _DEFAULT
    found = re.fullmatch("([0-9]+)([KMG]?)", text)
    if found is None:
        raise ValueError(f"{_VARIABLE} must be a number of bytes, such as 25M, not {text!r}")
    return int(found[1]) << _SHIFTS[found[2]]
