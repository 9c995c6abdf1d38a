# SPDX-License-Identifier: GPL-2.0-or-later
"""How measurements are kept: JSON with one row a line, so that a change of them can be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_MOST_LINES = 500
MEASUREMENTS = Path(__file__).resolve().parents[3] / "docs/measurements"


def _value(value: Any) -> str:
    if not isinstance(value, list) or not any(isinstance(each, dict) for each in value):
        return json.dumps(value)
    rows = ",\n".join(f"  {json.dumps(row)}" for row in value)
    return f"[\n{rows}\n ]"


def text(results: dict[str, Any]) -> str:
    """Each key begins a line, and so does each row of a list of rows."""
    keys = ",\n".join(f" {json.dumps(key)}: {_value(value)}" for key, value in results.items())
    return f"{{\n{keys}\n}}\n"


def publish(name: str, results: dict[str, Any]) -> None:
    """Writes docs/measurements/NAME.json; what has too many rows to be read is refused."""
    written = text(results)
    if written.count("\n") > _MOST_LINES:
        raise ValueError(f"{name}: docs/measurements takes at most {_MOST_LINES} lines a file")
    (MEASUREMENTS / f"{name}.json").write_text(written)
