# SPDX-License-Identifier: GPL-2.0-or-later
"""A control group for each host, for a cluster whose Slurm tracks processes with proctrack/cgroup.

All hosts share one kernel. Without a group of its own a host would find the steps of another one in
its tree, and the end of a job's step on one host would kill the ranks of all.
"""

from __future__ import annotations

import os
from pathlib import Path

from . import kernel
from .layout import Cluster
from .report import ClusterError

_FREEZER = Path("/sys/fs/cgroup/freezer")


def check() -> None:
    """Refuses a machine whose kernel has not mounted what proctrack/cgroup needs here."""
    if not (_FREEZER / "cgroup.procs").exists():
        raise ClusterError(
            f"proctrack/cgroup needs the freezer of control groups of version 1 at {_FREEZER}",
            hint="mount it there, or start the cluster with --proctrack linuxproc",
        )


def _group(cluster: Cluster, host: str) -> Path:
    return _FREEZER / f"minicluster-{cluster.name}" / host


def enter(cluster: Cluster, host: str) -> None:
    """Makes the host's group the root of the control groups that this process and its heirs see."""
    group = _group(cluster, host)
    group.mkdir(parents=True, exist_ok=True)
    (group / "cgroup.procs").write_text("0")
    kernel.unshare(kernel.CLONE_NEWCGROUP)


def show(root: Path) -> None:
    """Mounts the freezer as the host sees it below `root`, in the place of the machine's."""
    target = str(root) + str(_FREEZER)
    kernel.unmount_lazily(target)
    kernel.mount("cgroup", target, "cgroup", 0, "freezer")


def remove(cluster: Cluster) -> None:
    """Removes the groups of all hosts. Their processes must have ended."""
    top = _FREEZER / f"minicluster-{cluster.name}"
    for directory, _, _ in os.walk(top, topdown=False):
        Path(directory).rmdir()
