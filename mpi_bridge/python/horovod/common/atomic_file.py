# SPDX-License-Identifier: Apache-2.0
"""Files of which a reader always finds the old content or the whole new one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def _replace(temporary: Path, path: Path, written: os.stat_result) -> None:
    """Rename as os.replace does.

    A client of NFS asks twice if the first answer is lost, and is then told that the file is gone.
    """
    try:
        os.replace(temporary, path)
    except FileNotFoundError:
        with path.open("rb") as found:
            if not os.path.samestat(os.fstat(found.fileno()), written):
                raise


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """Give a stream whose content replaces the file if the block ends without an exception.

    Only the user may read or write the file. The content is on the disk when the block has ended.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            written = os.fstat(stream.fileno())
        _replace(temporary, path, written)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
