# SPDX-License-Identifier: Apache-2.0
"""What is missing says so, and names what works."""

from __future__ import annotations


def not_supported(name: str, instead: str = "") -> NotImplementedError:
    """Return the error for something that is missing; `instead` names what works."""
    hint = f"; {instead}" if instead else ""
    return NotImplementedError(f"{name} is not supported yet{hint}")
