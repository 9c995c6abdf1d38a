# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of settings, which the programs of a running cluster may read at any time."""

from __future__ import annotations

import pwd
import shutil
import stat
from pathlib import Path


def put(path: Path, text: str, owner: str = "root", mode: int = 0o644) -> bool:
    """Gives the file this text, as a whole; returns whether it had another one.

    A file that is right already is not touched: `batchai admin check` compares the time of its last
    change with that of slurmd's start.
    """
    old = path.read_text() if path.is_file() else None
    if old == text and _belongs(path, owner, mode):
        return False
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text)
    temporary.chmod(mode)
    shutil.chown(temporary, owner)
    temporary.rename(path)
    return old != text


def _belongs(path: Path, owner: str, mode: int) -> bool:
    status = path.stat()
    return (status.st_uid, stat.S_IMODE(status.st_mode)) == (pwd.getpwnam(owner).pw_uid, mode)
