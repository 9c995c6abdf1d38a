# SPDX-License-Identifier: Apache-2.0
"""Errors for missing features, which name an alternative."""

from __future__ import annotations


def not_supported(name: str, instead: str = "") -> NotImplementedError:
    """Return the error for a missing feature; `instead` names an alternative."""
    hint = f"; {instead}" if instead else ""
    return NotImplementedError(f"{name} is not supported yet{hint}")
