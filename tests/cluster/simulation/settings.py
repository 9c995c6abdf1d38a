# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of settings, which the programs of a running cluster may read at any time."""

from __future__ import annotations

import shutil
from pathlib import Path


def put(path: Path, text: str, owner: str = "root", mode: int = 0o644) -> bool:
    """Gives the file this text, as a whole; returns whether it had another one.

    A file that has the text already is as old as before: Slurm's daemons and `batchai admin check`
    compare its age with their own.
    """
    if path.is_file() and path.read_text() == text:
        path.chmod(mode)
        shutil.chown(path, owner)
        return False
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text)
    temporary.chmod(mode)
    shutil.chown(temporary, owner)
    temporary.rename(path)
    return True
