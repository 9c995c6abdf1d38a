# SPDX-License-Identifier: GPL-2.0-or-later
"""What a measurement must be read with: date, machine, versions, how far its cores are apart."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

_PACKAGES = ("openmpi-bin", "mpich", "libgloo0", "libucx0", "libpmix2", "slurmctld")


@dataclass(frozen=True)
class Machine:
    """The circumstances of one run."""

    date: str
    processor: str
    processors: int
    kernel: str
    load: float
    commit: str
    versions: dict[str, str]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def sentence(self) -> str:
        """For a document."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return (
            f"Measured on {self.date}, commit {self.commit}, {self.processors} × {self.processor},"
            f" Linux {self.kernel}, load average {self.load:.1f} at the start."
            f" Packages: {versions}."
        )


def _output(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    here = str(Path(__file__).parent)
    commit = _output("git", "-C", here, "rev-parse", "--short", "HEAD") or "unknown"
    changed = _output("git", "-C", here, "status", "--porcelain", "--untracked-files=no")
    return f"{commit} with changes" if changed else commit


def _version(package: str) -> str:
    # Without the epoch and Debian's own revision.
    version = _output("dpkg-query", "-W", "-f", "${Version}", package)
    return version.partition(":")[2] or version


def this_machine() -> Machine:
    versions = {package: _version(package) for package in _PACKAGES}
    return Machine(
        date=datetime.date.today().isoformat(),
        processor=_processor(),
        processors=len(os.sched_getaffinity(0)),
        kernel=platform.release(),
        load=os.getloadavg()[0],
        commit=_commit(),
        versions={package: version for package, version in versions.items() if version},
    )


def pingpong(program: Path) -> float:
    """Nanoseconds of a cache line from the first processor to the second."""
    return float(subprocess.run([program], capture_output=True, text=True, check=True).stdout)
