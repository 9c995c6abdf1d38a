# SPDX-License-Identifier: Apache-2.0
"""Finds and loads libmpi_bridge.

These are tried in this order: the file named by MPI_BRIDGE_LIBRARY (nothing else if it is set), a
file beside this package, the library directories of the installation that contains this package,
the library directory of the Python environment, and what the dynamic loader finds by name.
"""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from .errors import LibraryNotFoundError

ENVIRONMENT_VARIABLE = "MPI_BRIDGE_LIBRARY"
FILE_NAMES = ("libmpi_bridge.so", "libmpi_bridge.so.0")


def _library_directories(prefix: Path) -> Iterator[Path]:
    yield prefix / "lib"
    multiarch = sysconfig.get_config_var("MULTIARCH")
    if multiarch:
        yield prefix / "lib" / multiarch
    yield prefix / "lib64"


def candidates(package_directory: Path) -> Iterator[str]:
    """Yield what to try in order; the dynamic loader searches for a bare file name."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if named:
        yield named
        return
    directories = [package_directory]
    # PREFIX/lib/batchai/python/mpi_bridge -> PREFIX
    parents = package_directory.parents
    if len(parents) > 3 and parents[0].name == "python" and parents[1].name == "batchai":
        directories.extend(_library_directories(parents[3]))
    directories.extend(_library_directories(Path(sys.prefix)))
    for directory in dict.fromkeys(directories):
        for name in FILE_NAMES:
            if (directory / name).exists():
                yield str(directory / name)
    yield from FILE_NAMES


def load(package_directory: Path) -> ctypes.CDLL:
    """Load the first candidate that can be loaded, or raise LibraryNotFoundError."""
    failures = []
    for candidate in candidates(package_directory):
        try:
            return ctypes.CDLL(candidate)
        except OSError as error:
            failures.append(f"  {candidate}: {error}")
    looked = "" if os.environ.get(ENVIRONMENT_VARIABLE) else f" (looked in {package_directory} too)"
    raise LibraryNotFoundError(
        f"libmpi_bridge could not be loaded{looked}. Tried:\n"
        + "\n".join(failures)
        + f"\nInstall it, or set {ENVIRONMENT_VARIABLE} to the path of libmpi_bridge.so."
    )
