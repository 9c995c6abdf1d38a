# SPDX-License-Identifier: GPL-2.0-or-later
"""What a measurement must be read with: date, machine, versions, how far its cores are apart."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from .cluster import BenchError

# The load average above which other programs take part in what is measured.
_MOST_LOAD = 1.0
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

    def is_like(self, other: Machine) -> bool:
        """Whether what was measured on both can be compared."""
        return (self.processor, self.processors) == (other.processor, other.processors)

    def beside(self, other: Machine) -> Machine:
        """The circumstances of this run and another one; BenchError if the machines differ."""
        if not self.is_like(other):
            raise BenchError(
                f"runs on different machines cannot be joined: {self.processor}, {other.processor}"
            )

        def both(name: str) -> str:
            return " and ".join(dict.fromkeys((getattr(self, name), getattr(other, name))))

        return replace(
            self,
            **{name: both(name) for name in ("date", "kernel", "commit")},
            load=max(self.load, other.load),
            versions=self.versions | other.versions,
        )

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
    return processor_of(Path("/proc/cpuinfo").read_text()) or platform.machine()


def processor_of(cpuinfo: str) -> str:
    """The name, with family and model: a virtual machine's may be no more than "AMD EPYC"."""
    found: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        found.setdefault(key.strip(), value.strip())
    name = found.get("model name", "")
    if not name or "cpu family" not in found:
        return name
    return f"{name} (family {found['cpu family']}, model {found['model']})"


def _commit() -> str:
    here = str(Path(__file__).parent)
    commit = _output("git", "-C", here, "rev-parse", "--short", "HEAD") or "unknown"
    changed = _output("git", "-C", here, "status", "--porcelain", "--untracked-files=no")
    return f"{commit} with changes" if changed else commit


def _version(package: str) -> str:
    # Without the epoch and Debian's own revision.
    version = _output("dpkg-query", "-W", "-f", "${Version}", package)
    return version.partition(":")[2] or version


def must_be_idle(load: float) -> None:
    """BenchError where the load average at the start forbids that a run is published."""
    if load > _MOST_LOAD:
        raise BenchError(
            f"the load average at the start is {load:.1f}; what is measured above {_MOST_LOAD:g}"
            " is not published, so wait until nothing else runs"
        )


def this_machine(publishes: bool = False) -> Machine:
    """The circumstances of a run that begins, which may be one that is to be published."""
    load = os.getloadavg()[0]
    if publishes:
        must_be_idle(load)
    versions = {package: _version(package) for package in _PACKAGES}
    return Machine(
        date=datetime.date.today().isoformat(),
        processor=_processor(),
        processors=len(os.sched_getaffinity(0)),
        kernel=platform.release(),
        load=load,
        commit=_commit(),
        versions={package: version for package, version in versions.items() if version},
    )


def pingpong(program: Path) -> float:
    """Nanoseconds of a cache line from the first processor to the second."""
    return float(subprocess.run([program], capture_output=True, text=True, check=True).stdout)
