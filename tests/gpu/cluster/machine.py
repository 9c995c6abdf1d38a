# SPDX-License-Identifier: GPL-2.0-or-later
"""Shows in this mount namespace what the machine lacks of an unpacked archive.

The machine's own files win: an overlay has them above those of the archive, so that a library of
the archive is seen only where the machine has none of this name. What is written goes to memory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

from simulation import kernel

# Where the archive has an empty database, and minicluster looks for it.
CACHE = "/var/cache/batchai"
IMAGE = "image"
_SYSTEM_USERS = ("munge", "slurm")
# The archive is made on Debian, whose loader looks for libraries here.
_LIBRARIES = "/usr/lib/x86_64-linux-gnu"
_DRIVER = "libcuda.so.1"


def _unpack(archive: Path, root: Path) -> None:
    with tarfile.open(archive) as entries:
        # Python from 3.12 on wants to be told; the archive is trusted, as it brings programs.
        trusted = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
        entries.extractall(root, **trusted)


def _mounts_below(directory: str) -> list[str]:
    """The mount points below a directory, without those below another one of them."""
    points = sorted(
        line.split()[4].encode().decode("unicode_escape")
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
        if line.split()[4].startswith(directory + "/")
    )
    outermost: list[str] = []
    for point in points:
        if not outermost or not (point + "/").startswith(outermost[-1] + "/"):
            outermost.append(point)
    return outermost


def _overlay(directory: str, addition: Path, written: Path) -> None:
    """Shows the directory with the addition below it. What is written goes to `written`."""
    # An overlay has nothing of what is mounted below its directories.
    mounted = {point: os.open(point, os.O_PATH) for point in _mounts_below(directory)}
    upper, work = written / "upper", written / "work"
    for made in (addition, upper, work):
        made.mkdir(parents=True, exist_ok=True)
    shutil.copystat(directory, upper)
    layers = f"lowerdir={directory}:{addition},upperdir={upper},workdir={work}"
    kernel.mount("overlay", directory, "overlay", 0, layers)
    for point, descriptor in mounted.items():
        kernel.bind(f"/proc/self/fd/{descriptor}", point)
        os.close(descriptor)


def _numbers(file: Path) -> dict[str, int]:
    rows = (line.split(":") for line in file.read_text().splitlines())
    return {row[0]: int(row[2]) for row in rows if len(row) > 2}


def _add_users() -> None:
    passwd, group = Path("/etc/passwd"), Path("/etc/group")
    for name in _SYSTEM_USERS:
        users, groups = _numbers(passwd), _numbers(group)
        taken = {*users.values(), *groups.values()}
        free = next(number for number in range(999, 100, -1) if number not in taken)
        if name not in groups:
            with group.open("a") as file:
                file.write(f"{name}:x:{free}:\n")
        if name not in users:
            own = f"{name}:x:{free}:{groups.get(name, free)}"
            with passwd.open("a") as file:
                file.write(f"{own}::/nonexistent:/usr/sbin/nologin\n")


def driver_directories() -> list[str]:
    """Where the driver's library is, if an environment variable has to say so."""
    named = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    named += ["/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib"]
    return [name for name in dict.fromkeys(named) if name and (Path(name) / _DRIVER).exists()]


def _tell_the_loader() -> None:
    lines = [*driver_directories(), _LIBRARIES]
    file = Path("/etc/ld.so.conf.d/zz-gpu-cluster.conf")
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(lines) + "\n")
    subprocess.run(["ldconfig", "-X"], check=True)


def complete(archive: Path, root: Path) -> Path:
    """Makes the machine one on which tests/cluster/minicluster runs.

    Unpacks the archive to `root`, where memory is mounted. Returns where the project is installed.
    """
    kernel.mount("tmpfs", str(root), "tmpfs", 0, "mode=755")
    kernel.mount("tmpfs", "/run", "tmpfs", 0, "mode=755")  # minicluster's locks
    _unpack(archive, root)
    # The machine's own root, of which a container can be made: an overlay cannot be above overlays.
    image = root / IMAGE
    image.mkdir()
    kernel.mount("/", str(image), None, kernel.MS_BIND)
    written = root / "written"
    _overlay("/etc", root / "etc", written / "etc")
    _add_users()
    # The database's server runs as this user.
    for path in (root / CACHE[1:]).glob("mariadb-template*/**/*"):
        shutil.chown(path, "slurm", "slurm")
    prefix = Path((root / "prefix").read_text().strip())
    for directory in dict.fromkeys(["/usr", "/var", f"/{prefix.parts[1]}"]):
        _overlay(directory, root / directory[1:], written / directory[1:])
    _tell_the_loader()
    os.environ["BATCHAI_CACHE"] = CACHE
    os.environ.pop("MINICLUSTER_HOME", None)
    return prefix
