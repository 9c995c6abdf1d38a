#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Holds packaging/deb/symbols to the functions that the headers of mpi_bridge declare.

Making the package finds this as well, but that takes ten minutes.
"""

import re
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
SYMBOLS = TREE / "packaging/deb/symbols"


def main() -> int:
    """Print what only one of the two has."""
    headers = (TREE / "mpi_bridge/include").glob("*.h")
    text = "".join(header.read_text(encoding="utf-8") for header in headers)
    declared = set(re.findall(r"^MPIB_API [^;(]*?\b(mpib_\w+)\(", text, re.MULTILINE))
    listed = set(re.findall(r"^ (mpib_\w+)@", SYMBOLS.read_text(encoding="utf-8"), re.MULTILINE))
    name = SYMBOLS.relative_to(TREE)
    faults = [f"{function} is declared, but not in {name}" for function in declared - listed]
    faults += [f"{function} is in {name}, but not declared" for function in listed - declared]
    print("\n".join(sorted(faults)), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
