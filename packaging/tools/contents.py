# SPDX-License-Identifier: GPL-2.0-or-later
"""What of other projects a package holds, needs, or was compiled with."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dpkg

# The folders of the build whose objects are in a part of the installation; those that are not.
_FOLDERS = {
    "launcher": (("launcher/", "lua/", "mpi_bridge/"), ()),
    "plugin": (("spank/",), ()),
    "library": (("mpi_bridge/",), ("mpi_bridge/tools/",)),
}
# Compiled into every program that there is; what is linked of them is listed by that.
_OF_SYSTEM = {"libc6-dev", "linux-libc-dev"}
# Copies of shared libraries for containers, below the prefix.
BUNDLE = "lib/batchai/bundle"


@dataclass(frozen=True)
class Contents:
    """Each is a set of the distribution's packages."""

    compiled_in: set[dpkg.Installed]
    needed: set[dpkg.Installed]
    bundled: set[dpkg.Installed]


def elf_files(root: Path) -> Iterator[Path]:
    """The programs and libraries below a directory, links left out."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def needed_names(path: Path) -> set[str]:
    """The names of the libraries that an object asks the loader for."""
    done = subprocess.run(
        ["readelf", "--dynamic", "--wide", str(path)], capture_output=True, text=True, check=True
    )
    return set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.+)\]", done.stdout))


def _headers(build: Path, folders: tuple[str, ...], others: tuple[str, ...]) -> set[str]:
    """The system's headers in objects of `folders` that are not in `others`."""
    done = subprocess.run(
        ["ninja", "-C", str(build), "--quiet", "-t", "deps"],
        capture_output=True,
        text=True,
        check=True,
    )
    headers = set()
    wanted = False
    for line in done.stdout.splitlines():
        if not line.startswith(" "):
            wanted = line.startswith(folders) and not (others and line.startswith(others))
        elif wanted and line.strip().startswith("/usr/"):
            headers.add(str(Path(line.strip()).resolve()))
    return headers


def _sources_of_bundle(build: Path) -> set[dpkg.Installed]:
    """The packages from whose files make_bundle.py has copied; every file must be of one."""
    bundled = set()
    for path in (build / "mpi_bridge/bundle/sources.txt").read_text(encoding="utf-8").splitlines():
        owners = dpkg.owners([path])
        if not owners:
            raise SystemExit(f"{path} is in the bundle, but in no package: what is its licence?")
        bundled |= owners
    return bundled


def of_package(root: Path, part: str, build: Path) -> Contents:
    """Looks at the files of a part below `root`, the prefix it is staged in."""
    bundle = root / BUNDLE
    names: set[str] = set()
    for path in elf_files(root):
        if bundle not in path.parents:
            names |= needed_names(path)
    bundled = _sources_of_bundle(build) if bundle.exists() else set()
    files = {dpkg.loaded_library(name) for name in names}
    needed = dpkg.owners(path for path in files if path)
    compiled = dpkg.owners(_headers(build, *_FOLDERS[part])) if part in _FOLDERS else set()
    # Headers of a library that is loaded bring nothing more; but GCC's may be linked statically.
    loaded = {each.source for each in needed if each.name not in ("libstdc++6", "libgcc-s1")}
    return Contents(
        {each for each in compiled if each.source not in loaded and each.name not in _OF_SYSTEM},
        needed,
        bundled,
    )
