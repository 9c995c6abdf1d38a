# SPDX-License-Identifier: Apache-2.0
"""Makes the packages of this source tree importable, installed or not."""

import os
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE))
os.environ["PYTHONPATH"] = os.pathsep.join(
    part for part in (str(SOURCE), os.environ.get("PYTHONPATH")) if part
)
