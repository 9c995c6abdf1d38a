# SPDX-License-Identifier: GPL-2.0-or-later
"""Control groups for each host, for a cluster whose Slurm tracks and limits processes with them.

All hosts share one kernel. Without groups of its own a host would find the steps of another one in
its tree, and the end of a job's step on one host would kill the ranks of all. So each host has a
namespace of control groups, whose roots are groups of the machine: for version 1 one in the
hierarchy of each controller, for version 2 one in the unified hierarchy.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from . import kernel
from .layout import Cluster
from .report import ClusterError

_MOUNTED = Path("/sys/fs/cgroup")
# Of version 1: what proctrack/cgroup, task/cgroup and jobacct_gather/cgroup use.
_CONTROLLERS = ("freezer", "cpuset", "memory", "devices", "cpuacct", "cpu")
# Slurm 22.05 overlooks the last controller of version 2, which with systemd is "pids".
_LIMITS = ("cpu", "cpuset", "memory", "pids")
_FROM_PARENT = {"cpuset": ("cpuset.cpus", "cpuset.mems")}


def version(cluster: Cluster) -> int:
    """1 or 2, by the site's trait; 0: Slurm does without control groups."""
    return next((number for number in (1, 2) if cluster.has(f"cgroup{number}")), 0)


def _unified() -> Path:
    """Where the machine has version 2: alone, or beside the hierarchies of version 1."""
    return _MOUNTED if (_MOUNTED / "cgroup.controllers").exists() else _MOUNTED / "unified"


def _hierarchies(number: int) -> list[Path]:
    return [_unified()] if number == 2 else [_MOUNTED / name for name in _CONTROLLERS]


def check(cluster: Cluster) -> None:
    """Refuses a machine whose kernel has not mounted what the site needs."""
    number = version(cluster)
    for hierarchy in _hierarchies(number) if number else []:
        if not (hierarchy / "cgroup.procs").exists():
            raise ClusterError(
                f"the trait cgroup{number} needs control groups at {hierarchy}",
                hint="mount them there, or start the cluster without this trait",
            )


def _top(hierarchy: Path, cluster: Cluster) -> Path:
    return hierarchy / f"minicluster-{cluster.name}"


def enter(cluster: Cluster, host: str) -> None:
    """Makes the host's groups the roots of what this process and its heirs see of groups."""
    number = version(cluster)
    if not number:
        return
    for hierarchy in _hierarchies(number):
        top = _top(hierarchy, cluster)
        for group in (top, top / host):
            group.mkdir(exist_ok=True)
            for name in _FROM_PARENT.get(hierarchy.name, ()):
                (group / name).write_text((group.parent / name).read_text())
        (group / "cgroup.procs").write_text("0")
    kernel.unshare(kernel.CLONE_NEWCGROUP)
    if number == 2:
        # A group that hands on controllers must have no processes itself.
        inner = group / "host"
        inner.mkdir(exist_ok=True)
        (inner / "cgroup.procs").write_text("0")
        for each in (_unified(), top, group):
            _hand_on(cluster, each)


def _controllers(cluster: Cluster, group: Path) -> list[str]:
    """The controllers of version 2 by which the site limits what is in the group.

    Each is bound to version 1 or to version 2 for the whole machine. Only a site that limits cores
    has any: where the root of the host's groups hands on controllers, Slurm leaves its groups
    behind, empty, because slurmstepd cannot move to that root, as it can to the machine's.
    """
    available = (group / "cgroup.controllers").read_text().split()
    return [name for name in _LIMITS if name in available and cluster.has("affinity")]


def _hand_on(cluster: Cluster, group: Path) -> None:
    """Lets the groups below have these controllers, too."""
    for name in _controllers(cluster, group):
        (group / "cgroup.subtree_control").write_text(f"+{name}")


def files_to_join(anchor: int) -> list[str]:
    """Who writes 0 into these files is in the groups of the host; none where it has no groups."""
    files = []
    for line in Path(f"/proc/{anchor}/cgroup").read_text().splitlines():
        _, name, path = line.split(":", 2)
        if path.startswith("/minicluster-"):
            hierarchy = _MOUNTED / name if name else _unified()
            files.append(str(hierarchy / path.lstrip("/") / "cgroup.procs"))
    return files


def show(cluster: Cluster, root: Path) -> None:
    """Mounts the host's groups below `root`, in the place of the machine's."""
    number = version(cluster)
    if number == 1:
        for hierarchy in _hierarchies(1):
            target = str(root) + str(hierarchy)
            kernel.unmount_lazily(target)
            kernel.mount("cgroup", target, "cgroup", 0, hierarchy.name)
    elif number == 2:
        target = root / _MOUNTED.relative_to("/")
        kernel.unmount_lazily(str(target))
        kernel.mount("cgroup2", str(target), "cgroup2")
        # systemd would have made it.
        slice_ = target / "system.slice"
        slice_.mkdir(exist_ok=True)
        _hand_on(cluster, slice_)


def remove(cluster: Cluster) -> None:
    """Removes the groups of all hosts. Their processes must have ended."""
    for hierarchy in {path for number in (1, 2) for path in _hierarchies(number)}:
        for directory, _, _ in os.walk(_top(hierarchy, cluster), topdown=False):
            Path(directory).rmdir()


def prepare(cluster: Cluster) -> None:
    """Makes what slurmd needs to find version 2 on a machine that has version 1 as well."""
    if version(cluster) != 2:
        return
    source = Path(__file__).with_name("only_version_2.c")
    command = ["cc", "-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", str(cluster.only_version_2), str(source)], check=True)


def environment_of_slurmd(cluster: Cluster) -> dict[str, str]:
    return {"LD_PRELOAD": str(cluster.only_version_2)} if version(cluster) == 2 else {}


def cgroup_conf(cluster: Cluster) -> str:
    """The text of cgroup.conf for a site with control groups."""
    number = version(cluster)
    lines = ["CgroupAutomount=no", f"CgroupPlugin=cgroup/v{number}", "ConstrainDevices=yes"]
    limited = _controllers(cluster, _unified()) if number == 2 else ["memory"]
    if number == 1 and cluster.has("affinity"):
        limited.append("cpuset")
    if "memory" in limited:
        lines += ["ConstrainRAMSpace=yes", "ConstrainSwapSpace=yes"]
    if "cpuset" in limited:
        lines.append("ConstrainCores=yes")
    if number == 2:
        lines.append("IgnoreSystemd=yes")
    return "\n".join(lines) + "\n"
