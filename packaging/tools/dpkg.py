# SPDX-License-Identifier: GPL-2.0-or-later
"""What dpkg knows about the machine that packages are made on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, order=True)
class Installed:
    """A package of the distribution."""

    name: str
    version: str
    source: str
    source_version: str

    @property
    def copyright_file(self) -> Path:
        """Where the distribution has its licence."""
        return Path("/usr/share/doc") / self.name / "copyright"


def _output_of(*command: str) -> str:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    # dpkg-query fails when one of many paths has no owner; it names the others all the same.
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command[:3])}…: {done.stderr.strip()}")
    return done.stdout


def _spellings(path: str) -> list[str]:
    """Where /lib is a link to /usr/lib, packages have their files in either."""
    return [path, path.removeprefix("/usr") if path.startswith("/usr/lib") else f"/usr{path}"]


def owners(paths: Iterable[str]) -> set[Installed]:
    """The packages that have these files; files that none has are left out."""
    wanted = sorted({spelling for path in paths for spelling in _spellings(path)})
    names = set()
    for start in range(0, len(wanted), 500):
        for line in _output_of("dpkg-query", "-S", *wanted[start : start + 500]).splitlines():
            packages, colon, _ = line.rpartition(": /")
            if colon and not line.startswith("diversion "):
                names |= {name.strip() for name in packages.split(",")}
    if not names:
        return set()
    fields = "${Package}\t${Version}\t${source:Package}\t${source:Version}\n"
    lines = _output_of("dpkg-query", "-W", "-f", fields, *sorted(names)).splitlines()
    return {Installed(*line.split("\t")) for line in lines}


def loaded_library(name: str) -> str | None:
    """The file that the loader's cache has under this name, with links resolved."""
    for line in _output_of("/sbin/ldconfig", "-p").splitlines():
        words = line.split()
        if words and words[0] == name and "=>" in words:
            return str(Path(words[-1]).resolve())
    return None
