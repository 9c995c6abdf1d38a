# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers as a reader wants them."""

from __future__ import annotations


def size_name(size: int) -> str:
    """Such as 8 B, 64 KiB, 1 MiB."""
    for unit, power in (("MiB", 20), ("KiB", 10)):
        if size >= 1 << power:
            return f"{size >> power} {unit}"
    return f"{size} B"


def quantity(microseconds: float) -> str:
    """Three digits or so, in µs or ms."""
    value, unit = (microseconds / 1000, "ms") if microseconds >= 1000 else (microseconds, "µs")
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f} {unit}"
