# SPDX-License-Identifier: Apache-2.0
"""Makes the packages and the test helpers importable."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent)]
