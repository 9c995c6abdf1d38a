# SPDX-License-Identifier: Apache-2.0
"""The list of differences from Horovod in docs/horovod.md is complete in itself.

Breaks when a difference stands there without its reason, or a row has lost a cell.
"""

import re
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "horovod.md"
HEADING = "## All differences from Horovod\n"


def rows():
    text = DOCUMENT.read_text()
    assert HEADING in text
    for line in text.partition(HEADING)[2].splitlines():
        if line.startswith("| ") and not line.startswith("| What |"):
            # A name such as "a | b" in code would be one cell.
            yield [cell.strip() for cell in re.sub(r"`[^`]*`", "code", line).split("|")[1:-1]]


def test_every_difference_has_a_reason():
    found = list(rows())
    assert len(found) > 40
    for row in found:
        assert len(row) == 3, row
        what, here, why = row
        assert what, row
        assert here, row
        # What works in addition needs no excuse.
        assert why or here.startswith(("*wider*", "additional")), row
