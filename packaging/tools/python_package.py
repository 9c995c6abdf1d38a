#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds the wheel of mpi_bridge from its sources, without a network.

With --site and --programs its files are put where the system's Python finds them, as a package of
the distribution has them: without the record by which pip would remove them.
"""

from __future__ import annotations

import argparse
import configparser
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

_PROGRAM = """#!/usr/bin/python3
import sys

from {module} import {function}

if __name__ == "__main__":
    sys.exit({function}())
"""


def build_wheel(sources: Path, directory: Path) -> Path:
    """The wheel, in the directory. It is built from a copy: setuptools writes into its sources."""
    from setuptools import build_meta

    # With a library the wheel would be for one processor only.
    os.environ.pop("MPI_BRIDGE_LIBRARY", None)
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work, "python")
        left_out = shutil.ignore_patterns("__pycache__", "tests", "build", "*.egg-info", ".*")
        shutil.copytree(sources, copy, ignore=left_out)
        # What setup.py takes from the folders beside the packages.
        for beside in ("torch", "include"):
            shutil.copytree(sources.parent / beside, Path(work, beside))
        shutil.copyfile(sources.parent.parent / "LICENSES/Apache-2.0.txt", copy / "LICENSE")
        for path in copy.rglob("*"):
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
        here = Path.cwd()
        os.chdir(copy)
        # What it says goes to standard error; standard output has the name of the wheel.
        said = os.dup(1)
        os.dup2(2, 1)
        try:
            name = build_meta.build_wheel(str(directory.absolute()))
        finally:
            os.dup2(said, 1)
            os.chdir(here)
    return directory / name


def unpack(wheel: Path, site: Path, programs: Path) -> None:
    """Puts the modules into `site`, and a program for each console script into `programs`."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (metadata,) = site.glob("mpi_bridge-*.dist-info")
    # The distribution's package has its licence elsewhere, and dpkg keeps the record of its files.
    # From setuptools 77 on, licences are in a directory of their own.
    (metadata / "RECORD").unlink()
    for licence in (*metadata.glob("LICENSE"), *metadata.glob("licenses/LICENSE")):
        licence.unlink()
    if (metadata / "licenses").is_dir():
        (metadata / "licenses").rmdir()
    (metadata / "INSTALLER").write_text("distribution\n", encoding="utf-8")
    points = configparser.ConfigParser()
    points.read(metadata / "entry_points.txt", encoding="utf-8")
    programs.mkdir(parents=True, exist_ok=True)
    for name, place in points["console_scripts"].items():
        module, _, function = place.partition(":")
        program = programs / name
        program.write_text(_PROGRAM.format(module=module, function=function), encoding="utf-8")
        program.chmod(0o755)
    for path in site.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", type=Path, help="the directory with pyproject.toml")
    parser.add_argument("--wheel", type=Path, metavar="DIR", help="keep the wheel here")
    parser.add_argument("--site", type=Path, metavar="DIR", help="unpack it here")
    parser.add_argument("--programs", type=Path, metavar="DIR", help="and its programs here")
    given = parser.parse_args()
    if (given.site is None) != (given.programs is None):
        parser.error("--site and --programs go together")
    with tempfile.TemporaryDirectory() as work:
        wheel = build_wheel(given.sources.absolute(), Path(work))
        if given.site is not None:
            unpack(wheel, given.site, given.programs)
        if given.wheel is not None:
            given.wheel.mkdir(parents=True, exist_ok=True)
            target = given.wheel / wheel.name
            shutil.copyfile(wheel, target)
            print(target)


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
