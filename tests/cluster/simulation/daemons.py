# SPDX-License-Identifier: GPL-2.0-or-later
"""Starting the daemons of a cluster, each when what it needs is there."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

from . import control_group, database, host, slurm_config
from .layout import LOGIN, Cluster
from .report import ClusterError, progress

_LISTENING = "0A"


def expected_on(cluster: Cluster, name: str) -> list[str]:
    """What runs there, for status."""
    controller = ["slurmctld"] if name in cluster.controllers else []
    if name == LOGIN:
        return ["munged", "mariadbd", "slurmdbd", *controller]
    return ["munged", *["slurmd"] * len(cluster.nodes_on(name)), *controller]


def _socket_answers(anchor: int, path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(f"/proc/{anchor}/root{path}")
        except OSError:
            return False
        return True


def _port_is_open(anchor: int, port: int) -> bool:
    """True if something in the host listens on the port; read from the host's own table."""
    wanted = f":{port:04X}"
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{anchor}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        if any(
            line.split()[1].endswith(wanted) and line.split()[3] == _LISTENING for line in lines
        ):
            return True
    return False


def wait_until(what: str, seconds: float, condition: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(
                f"{what}: not within {seconds:.0f} s", log=log, hint="the log says why"
            )
        time.sleep(0.05)


def start_munge(cluster: Cluster, anchors: dict[str, int], hosts: list[str]) -> None:
    """Starts munged on these hosts and returns when it answers on all of them."""
    for name in hosts:
        argv = [
            "munged",
            "--foreground",
            "--num-threads=2",
            "--key-file=/etc/munge/munge.key",
            "--seed-file=/run/munge/munge.seed",
            "--pid-file=/run/munge/munged.pid",
        ]
        host.spawn(anchors[name], argv, cluster.log(name, "munged"))
    for name in hosts:
        wait_until(
            f"munged on {name}",
            10,
            lambda name=name: _socket_answers(anchors[name], "/run/munge/munge.socket.2"),
            cluster.log(name, "munged"),
        )


def _start_service(cluster: Cluster, anchor: int, argv: list[str], port: int) -> None:
    log = cluster.log(LOGIN, argv[0])
    host.spawn(anchor, argv, log)
    wait_until(f"{argv[0]} on {LOGIN}", 40, lambda: _port_is_open(anchor, port), log)


def start_slurmd(
    cluster: Cluster, anchors: dict[str, int], name: str, booted: bool = False
) -> None:
    """Starts the slurmd of a node.

    It tells Slurm that the host has booted, if so: all hosts share one kernel.
    """
    argv = ["slurmd", "-D", *(["-b"] if booted else [])]
    if cluster.has("slurmds"):
        argv += ["-N", name]
    if cluster.is_configless(cluster.host_of(name)):
        servers = [f"{each}:{slurm_config.SLURMCTLD_PORT}" for each in cluster.controllers]
        argv += ["--conf-server", ",".join(servers)]
    files = 1024 if cluster.has("nofile") else 0
    variables = control_group.environment_of_slurmd(cluster)
    anchor = anchors[cluster.host_of(name)]
    host.spawn(anchor, argv, cluster.log(name, "slurmd"), files, variables)


def all_idle(cluster: Cluster, login: int) -> bool:
    answer = host.run(
        login, ["sinfo", "--noheader", "--Node", "--partition=main", "--format=%N %T"]
    )
    states = [line.split() for line in answer.stdout.splitlines()]
    return len(states) == cluster.nodes and all(state == "idle" for _, state in states)


def _is_registered(cluster: Cluster, login: int) -> bool:
    """True when slurmctld has told slurmdbd of its cluster."""
    words = ["--noheader", "--parsable2", "show", "cluster", "format=Cluster,ControlHost"]
    known = host.run(login, ["sacctmgr", *words]).stdout.splitlines()
    return f"{cluster.name}|{cluster.address(LOGIN)}" in known


def _add_accounts(cluster: Cluster, login: int) -> None:
    # Accounts that are added before are in no cluster.
    wait_until(
        "the cluster in slurmdbd",
        20,
        lambda: _is_registered(cluster, login),
        cluster.log(LOGIN, "slurmctld"),
    )
    for words in (
        ["account", "research", "Description=research", "Organization=research"],
        ["user", "alice,bob", "Account=research"],
    ):
        done = host.run(login, ["sacctmgr", "--immediate", "--quiet", "add", *words])
        if done.returncode != 0:
            raise ClusterError(
                f"sacctmgr add {words[0]} failed: {(done.stdout + done.stderr).strip()}",
                log=cluster.log(LOGIN, "slurmdbd"),
            )


def start_all(cluster: Cluster, anchors: dict[str, int]) -> None:
    """Starts everything and returns when all nodes are idle."""
    login = anchors[LOGIN]
    log = cluster.log(LOGIN, "mariadbd")
    host.spawn(login, database.command(), log)
    start_munge(cluster, anchors, cluster.hosts)
    wait_until(f"mariadbd on {LOGIN}", 30, lambda: _socket_answers(login, database.SOCKET), log)
    progress("munge and the database answer; starting Slurm")
    _start_service(cluster, login, ["slurmdbd", "-D"], slurm_config.SLURMDBD_PORT)
    _start_service(cluster, login, ["slurmctld", "-D"], slurm_config.SLURMCTLD_PORT)
    for name in cluster.controllers[1:]:
        host.spawn(anchors[name], ["slurmctld", "-D"], cluster.log(name, "slurmctld"))
    for name in cluster.compute_nodes:
        start_slurmd(cluster, anchors, name)
    progress("slurmdbd and slurmctld answer; waiting for the nodes")
    _add_accounts(cluster, login)
    wait_until(
        f"{cluster.nodes} idle nodes",
        40,
        lambda: all_idle(cluster, login),
        cluster.log(LOGIN, "slurmctld"),
    )
