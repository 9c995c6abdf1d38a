# SPDX-License-Identifier: GPL-2.0-or-later
"""What the user is told: progress lines, and errors that say what, where and what to do."""

from __future__ import annotations

import sys
import time
from pathlib import Path

_started = time.monotonic()


class ClusterError(Exception):
    """Something the user has to know about; `hint` says what to do, `log` where to look."""

    def __init__(self, message: str, hint: str = "", log: Path | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.log = log


def progress(message: str) -> None:
    """One line on standard error, with the seconds since the command began."""
    print(
        f"minicluster: [{time.monotonic() - _started:5.1f} s] {message}",
        file=sys.stderr,
        flush=True,
    )


def failure(error: ClusterError) -> None:
    """The error, the end of the log it names, and the hint."""
    print(f"minicluster: error: {error}", file=sys.stderr)
    if error.log is not None:
        print(f"minicluster: log: {error.log}", file=sys.stderr)
        if error.log.is_file():
            for line in error.log.read_text(errors="replace").splitlines()[-8:]:
                print(f"    {line}", file=sys.stderr)
    if error.hint:
        print(f"minicluster: hint: {error.hint}", file=sys.stderr)
