# SPDX-License-Identifier: GPL-2.0-or-later
"""Finding the anchors of a cluster's hosts (host.py). enter.c does it, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from . import layout
from .layout import Cluster
from .report import ClusterError

_MARK = "minicluster-host"


def anchor_words(cluster: Cluster, host: str) -> list[str]:
    """The first word of the anchor's command line, in its parts."""
    return [_MARK, str(cluster.directory), host]


def processes() -> Iterator[int]:
    """Ids of all processes of the machine."""
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def command_line(pid: int) -> list[str]:
    """The words with which a process was started; none if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def anchors_of(cluster: Cluster) -> dict[str, int]:
    """Process ids of the cluster's anchors by host, found by their command lines."""
    found = {}
    own = anchor_words(cluster, "")[:2]
    for pid in processes():
        words = command_line(pid)
        # "infinity" is what sleep(1) needs; the mark, directory and host ride in its name.
        if len(words) == 2 and words[1] == "infinity":
            name = words[0].split("\n")
            if len(name) == 3 and name[:2] == own:
                found[name[2]] = pid
    return found


def anchor_of(name: str, host: str) -> tuple[Cluster, int]:
    """The running cluster and the anchor of one of its hosts."""
    cluster = layout.load(name)
    if cluster is None:
        raise ClusterError(f"cluster {name} is down", hint=f"minicluster up --name {name}")
    host = cluster.host_of(host)
    if host not in cluster.hosts:
        raise ClusterError(
            f"cluster {name} has no host {host}", hint=f"its hosts: {' '.join(cluster.hosts)}"
        )
    anchor = anchors_of(cluster).get(host)
    if anchor is not None:
        return cluster, anchor
    from . import power

    if power.is_off(cluster, host):
        raise ClusterError(
            f"host {host} of cluster {name} is switched off",
            hint=f"scontrol update nodename={host} state=POWER_UP",
        )
    raise ClusterError(
        f"host {host} of cluster {name} does not run", hint=f"minicluster up --name {name}"
    )
