# SPDX-License-Identifier: GPL-2.0-or-later
"""The cluster's network: one bridge in a namespace of its own, one cable to each host.

Nothing of it is in the machine's own network namespace, and no route leads out.
"""

from __future__ import annotations

import subprocess

from .layout import SWITCH, Cluster
from .report import ClusterError


def _ip_batch(anchor: int, commands: list[str]) -> None:
    done = subprocess.run(
        ["nsenter", "-t", str(anchor), "-n", "--", "ip", "-batch", "-"],
        input="\n".join(commands) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ClusterError(
            f"the cluster's network could not be made: {done.stderr.strip()}",
            hint="the kernel needs bridge and veth devices",
        )


def connect(cluster: Cluster, anchors: dict[str, int]) -> None:
    """Lays the bridge and the cables and gives every host its address, on eth0."""
    commands = ["link add bridge0 type bridge", "link set bridge0 up"]
    for host in cluster.hosts:
        commands += _cable(host, anchors[host])
    _ip_batch(anchors[SWITCH], commands)
    for host in cluster.hosts:
        _give_address(cluster, anchors[host], host)


def _cable(host: str, anchor: int) -> list[str]:
    return [
        f"link add {host} type veth peer name eth0 netns {anchor}",
        f"link set {host} master bridge0 up",
    ]


def _give_address(cluster: Cluster, anchor: int, host: str) -> None:
    _ip_batch(
        anchor,
        [f"addr add {cluster.address(host)}/24 dev eth0", "link set lo up", "link set eth0 up"],
    )
    # systemd lets all users send pings.
    allow = "echo 0 2147483647 > /proc/sys/net/ipv4/ping_group_range"
    subprocess.run(["nsenter", "-t", str(anchor), "-n", "--", "sh", "-c", allow], check=True)


def connect_host(cluster: Cluster, anchors: dict[str, int], host: str) -> None:
    """Lays the cable of one host that has started after the others."""
    disconnect(anchors[SWITCH], host)
    _ip_batch(anchors[SWITCH], _cable(host, anchors[host]))
    _give_address(cluster, anchors[host], host)


def disconnect(switch: int, host: str) -> None:
    """Takes the cable of a host away. The kernel does so too, but only some time after its end."""
    subprocess.run(
        ["nsenter", "-t", str(switch), "-n", "--", "ip", "link", "del", host],
        capture_output=True,
        check=False,
    )
