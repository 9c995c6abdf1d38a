# SPDX-License-Identifier: GPL-2.0-or-later
"""up, status and down."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import (
    accounts,
    control_group,
    daemons,
    database,
    host,
    layout,
    network,
    power,
    project,
    rootfs,
    settings,
    site,
    slurm_config,
)
from .anchors import anchor_of, anchors_of
from .layout import LOGIN, SWITCH, Cluster
from .report import ClusterError, progress

_PROGRAMS = (
    "munged",
    "mariadbd",
    "slurmdbd",
    "slurmctld",
    "slurmd",
    "sinfo",
    "sacctmgr",
    "ip",
    "nsenter",
)
# A machine without a compiler can have the program of `exec` ready (tests/gpu/cluster).
COMPILED_ENTER = "minicluster-enter"

_LOCKS = Path("/run/lock")


@contextmanager
def _only_one(name: str) -> Iterator[None]:
    """Two commands that change one cluster wait for each other."""
    _LOCKS.mkdir(parents=True, exist_ok=True)
    with (_LOCKS / f"minicluster-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _check_machine() -> None:
    if os.geteuid() != 0:
        raise ClusterError("only root can make namespaces and start Slurm", hint="run it as root")
    compiler = [] if shutil.which(COMPILED_ENTER) else ["cc"]
    missing = [name for name in [*_PROGRAMS, *compiler] if shutil.which(name) is None]
    if missing:
        raise ClusterError(f"not installed: {', '.join(missing)}", hint="run scripts/setup")


def _configure(cluster: Cluster) -> bool:
    """Writes what /etc/slurm shows; returns whether slurm.conf changed."""
    etc = cluster.etc
    for name in ("slurm/plugstack.conf.d", *rootfs.SHARED_ETC):
        (etc / name).mkdir(parents=True, exist_ok=True)
    key = etc / "munge" / "munge.key"
    if not key.exists():
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
    (etc / "munge").chmod(0o700)
    slurm = etc / "slurm"
    lua = project.configure(cluster)
    power.configure(cluster)
    site.configure(cluster)
    settings.put(slurm / "slurmdbd.conf", slurm_config.slurmdbd_conf(), "slurm", 0o600)
    settings.put(slurm / "cgroup.conf", slurm_config.cgroup_conf(cluster))
    settings.put(slurm / "gres.conf", slurm_config.gres_conf(cluster))
    return settings.put(slurm / "slurm.conf", slurm_config.slurm_conf(cluster, lua))


def _healthy(cluster: Cluster) -> bool:
    return not faults(cluster)


def faults(cluster: Cluster) -> list[str]:
    """What of a running cluster is missing, in words; empty if nothing is."""
    anchors = anchors_of(cluster)
    missing = [
        f"host {name} is gone"
        for name in [SWITCH, *cluster.hosts]
        if name not in anchors and not power.is_off(cluster, name)
    ]
    if cluster.power_saving and not power.services(cluster):
        missing.append("the power service does not run")
    for name in cluster.hosts:
        if name not in anchors or power.is_off(cluster, name):
            continue
        # A Slurm that has read its files anew may go by the name of Debian's file, slurmd-wlm.
        programs = host.members(anchors[name]).values()
        running = Counter(each.removesuffix("-wlm") for each in programs)
        expected = Counter(daemons.expected_on(cluster, name))
        missing += [f"{daemon} on {name} does not run" for daemon in expected - running]
    return missing


def _clear(cluster: Cluster, keep_logs: bool) -> None:
    """Ends every process and removes every file of the cluster, logs only if not kept."""
    power.end_service(cluster)
    host.end(cluster)
    control_group.remove(cluster)
    if not cluster.directory.is_dir():
        return
    for entry in cluster.directory.iterdir():
        if keep_logs and entry == cluster.logs:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    if not keep_logs:
        cluster.directory.rmdir()


def _make_directories(cluster: Cluster) -> None:
    cluster.directory.mkdir(parents=True, exist_ok=True)
    if cluster.logs.is_dir():
        shutil.rmtree(cluster.logs)
    for name in ("log", "root", "state/slurmctld"):
        (cluster.directory / name).mkdir(parents=True)
    shutil.chown(cluster.directory / "state/slurmctld", "slurm", "slurm")
    accounts.make_homes(cluster)
    if cluster.power_saving:
        power.make_directory(cluster)


def _make_enter(cluster: Cluster) -> None:
    """The program of `exec`, beside which it finds what it must know of the cluster."""
    compiled = shutil.which(COMPILED_ENTER)
    if compiled:
        shutil.copy(compiled, cluster.enter)
    else:
        compile_enter(cluster.enter)
    (cluster.directory / "prefix").write_text(f"{cluster.prefix or ''}\n")
    for node in cluster.compute_nodes:
        (cluster.directory / f"host-of-{node}").symlink_to(cluster.host_of(node))


def compile_enter(target: Path) -> None:
    source = Path(__file__).with_name("enter.c")
    command = ["cc", "-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*command, "-o", str(target), str(source)], check=True)


def _start(cluster: Cluster, show: list[str], script: str) -> None:
    _make_directories(cluster)
    _configure(cluster)
    _make_enter(cluster)
    site.prepare(cluster)
    control_group.prepare(cluster)
    cluster.save()
    database.prepare(cluster)
    readers = {name: host.start(cluster, name, show) for name in [SWITCH, *cluster.hosts]}
    for name, reader in readers.items():
        host.await_start(name, reader)
    anchors = anchors_of(cluster)
    network.connect(cluster, anchors)
    progress(f"{len(cluster.hosts)} hosts on one network; starting munge and the database")
    if cluster.power_saving:
        power.start_service(cluster, script)
    daemons.start_all(cluster, anchors)


def shown(cluster: Cluster, source_tree: str) -> list[str]:
    """Directories of the machine that hosts see at their own path, wherever they are."""
    # Another system's hosts have nothing of this machine.
    show = [source_tree] if cluster.system == "/" else []
    return [*show, cluster.prefix] if cluster.prefix else show


def up(cluster: Cluster, script: str, source_tree: str) -> None:
    """Brings the cluster up, or only refreshes its configuration if it is up already.

    `script` is the path of the command minicluster.
    """
    layout.check(cluster)
    site.check(cluster)
    _check_machine()
    control_group.check(cluster)
    if cluster.prefix:
        project.check(cluster.prefix)
    with _only_one(cluster.name):
        if layout.load(cluster.name) == cluster and _healthy(cluster):
            if _configure(cluster):
                host.run(anchors_of(cluster)[LOGIN], ["scontrol", "reconfigure"])
            progress(f"cluster {cluster.name} is up already; its configuration is fresh")
            return
        if anchors_of(cluster):
            progress(f"cluster {cluster.name} is up in part or differently: starting it anew")
        _clear(cluster, keep_logs=True)
        try:
            _start(cluster, shown(cluster, source_tree), script)
        except BaseException:
            _clear(cluster, keep_logs=True)
            raise
    progress(f"cluster {cluster.name} is up: {cluster.nodes} nodes idle, logs in {cluster.logs}")


def down(name: str, keep_logs: bool) -> None:
    """Ends the cluster, whatever state it is in. Having nothing to end is fine."""
    cluster = layout.load(name) or Cluster(name)
    layout.check(cluster)
    _check_machine()
    with _only_one(name):
        _clear(cluster, keep_logs)
    progress(f"cluster {name} is down" + (f", logs stay in {cluster.logs}" if keep_logs else ""))


def status(name: str) -> int:
    """Prints what runs. 0 if all is well, 1 if something is missing, 3 if nothing runs."""
    cluster = layout.load(name)
    anchors = anchors_of(cluster) if cluster else {}
    if cluster is None or not anchors:
        print(f"cluster {name} is down")
        return 3
    print(
        f"cluster {name}: {cluster.nodes} nodes, prefix {cluster.prefix or 'none'},"
        f" logs {cluster.logs}"
    )
    if cluster.traits:
        print(f"  traits of the site: {', '.join(cluster.traits)}")
    for each in cluster.hosts:
        anchor = anchors.get(each)
        running = sorted(set(host.members(anchor).values())) if anchor else []
        if cluster.has("slurmds") and each != LOGIN:
            running.append(f"(nodes {' '.join(cluster.nodes_on(each))})")
        if power.is_off(cluster, each):
            running.append("(switched off)")
        print(
            f"  {each:6} {cluster.address(each):12} anchor {anchor or '-':<8} {' '.join(running)}"
        )
    missing = faults(cluster)
    for fault in missing:
        print(f"  fault: {fault}")
    if LOGIN in anchors:
        print(host.run(anchors[LOGIN], ["sinfo"]).stdout, end="")
    return 1 if missing else 0


def start_slurmd(name: str, wanted: str) -> None:
    """Starts the slurmd of a node as `up` did."""
    cluster, anchor = anchor_of(name, wanted)
    daemons.start_slurmd(cluster, {cluster.host_of(wanted): anchor}, wanted)


def set_broken(name: str, wanted: str, broken: bool) -> None:
    """Says whether a host comes up when Slurm switches it on."""
    cluster = layout.load(name)
    if cluster is None:
        raise ClusterError(f"cluster {name} is down", hint=f"minicluster up --name {name}")
    power.set_broken(cluster, wanted, broken)


def serve_power(name: str, source_tree: str) -> None:
    """The power service (power.py), which `up` starts."""
    cluster = layout.load(name)
    if cluster is None:
        raise ClusterError(f"cluster {name} is down")
    power.serve(cluster, shown(cluster, source_tree))
