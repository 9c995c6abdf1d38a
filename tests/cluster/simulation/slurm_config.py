# SPDX-License-Identifier: GPL-2.0-or-later
"""The text of the cluster's configuration files: a plain Slurm, with short timers for tests."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from . import control_group, power, site
from .layout import LOGIN, WIDGET_FILES, Cluster
from .report import ClusterError

SLURMCTLD_PORT = 6817
SLURMD_PORT = 6818
SLURMDBD_PORT = 6819
# Of the first node, where several slurmds run on a host.
_SLURMD_PORT_OF_NODE = 7001

_MEMORY_PER_NODE_MB = 8192


def _slurm_series(cluster: Cluster) -> tuple[int, int]:
    """Year and month of the hosts' Slurm: (22, 5) for 22.05.8."""
    done = subprocess.run(
        ["chroot", cluster.system, "slurmd", "-V"], capture_output=True, text=True, check=False
    )
    found = re.match(r"slurm\S* (\d+)\.(\d+)", done.stdout)
    if found is None:
        raise ClusterError(f"slurmd -V in {cluster.system} says: {done.stdout}{done.stderr}")
    return int(found[1]), int(found[2])


def _gres_of_node(cluster: Cluster) -> str:
    return f"widget:{len(WIDGET_FILES)}" + (f",gpu:{cluster.gpus}" if cluster.gpus else "")


def _hostnames(cluster: Cluster) -> str:
    """Of a node line, where hosts have other names than nodes."""
    hosts = [cluster.host_of(node) for node in cluster.compute_nodes]
    names = [cluster.hostname(host) for host in hosts]
    if names == cluster.compute_nodes:
        return ""
    last = _SLURMD_PORT_OF_NODE + cluster.nodes - 1
    ports = f" Port=[{_SLURMD_PORT_OF_NODE}-{last}]" if cluster.has("slurmds") else ""
    return f" NodeHostname={','.join(names)} NodeAddr={','.join(hosts)}{ports}"


def _controller(cluster: Cluster, host: str) -> str:
    name = cluster.hostname(host)
    return f"SlurmctldHost={name}" + (f"({host})" if name != host else "")


def _lines_of_release(cluster: Cluster) -> list[str]:
    """What the trait `requeue` means for this release."""
    if not cluster.has("requeue"):
        return []
    if _slurm_series(cluster) < (25, 11):
        return [f"AuthInfo=cred_expire={site.REQUEUE_DELAY}"]
    return [
        f"SchedulerParameters=requeue_delay={site.REQUEUE_DELAY}",
        "SlurmctldParameters=enable_expedited_requeue",
    ]


def slurm_conf(cluster: Cluster, lua_cli_filter: bool) -> str:
    nodes = f"h[1-{cluster.nodes}]"
    # Newer releases want the cores near a GPU to be those of whole sockets.
    sockets = cluster.gpus if cluster.gpus and cluster.cpus_per_node % cluster.gpus == 0 else 1
    lines = [
        f"ClusterName={cluster.name}",
        *(_controller(cluster, host) for host in cluster.controllers),
        "SlurmUser=slurm",
        "AuthType=auth/munge",
        f"SlurmctldPort={SLURMCTLD_PORT}",
        f"SlurmdPort={SLURMD_PORT}",
        "SlurmctldPidFile=/run/slurm/slurmctld.pid",
        "SlurmdPidFile=/run/slurm/slurmd.pid",
        # From 24.11 on, what an epilog's plugins say goes only to such a file. So does what a
        # slurmctld says that a test has started again.
        "SlurmdLogFile=/run/slurm/slurmd.log",
        "SlurmctldLogFile=/run/slurm/slurmctld.log",
        "StateSaveLocation=/var/lib/slurm/slurmctld",
        "SlurmdSpoolDir=/var/lib/slurm/slurmd",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "MpiDefault=none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "DefMemPerCPU=512",
        "JobAcctGatherType=jobacct_gather/linux",
        "JobAcctGatherFrequency=5",
        "AccountingStorageType=accounting_storage/slurmdbd",
        f"AccountingStorageHost={LOGIN}",
        f"AccountingStoragePort={SLURMDBD_PORT}",
        "AccountingStoreFlags=job_comment,job_script",
        "SlurmdParameters=config_overrides",
        "ReturnToService=2",
        "JobRequeue=1",
        "SlurmctldTimeout=30",
        "SlurmdTimeout=15",
        "KillWait=5",
        # From 24.05 on Slurm complains of less than 60 s, in its log only.
        "UnkillableStepTimeout=30",
        "MessageTimeout=10",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=0,bf_interval=2",
        "PreemptType=preempt/partition_prio",
        "PreemptMode=REQUEUE",
        "PlugStackConfig=/etc/slurm/plugstack.conf",
        "GresTypes=widget" + (",gpu" if cluster.gpus else ""),
        f"NodeName={nodes}{_hostnames(cluster)} CPUs={cluster.cpus_per_node} Sockets={sockets}"
        f" CoresPerSocket={cluster.cpus_per_node // sockets} ThreadsPerCore=1"
        f" RealMemory={_MEMORY_PER_NODE_MB} Gres={_gres_of_node(cluster)} State=UNKNOWN",
        f"PartitionName=main Nodes={nodes} Default=YES MaxTime=INFINITE DefaultTime=60 State=UP"
        " PreemptMode=OFF",
        f"PartitionName=debug Nodes={nodes} MaxTime=30 DefaultTime=10 State=UP PreemptMode=OFF",
        # Jobs of "urgent" take the nodes of jobs in the other two, which are queued again or end.
        f"PartitionName=requeued Nodes={nodes} DefaultTime=10 State=UP PreemptMode=REQUEUE",
        f"PartitionName=cancelled Nodes={nodes} DefaultTime=10 State=UP PreemptMode=CANCEL",
        f"PartitionName=urgent Nodes={nodes} DefaultTime=10 State=UP PreemptMode=OFF"
        " PriorityTier=2",
    ]
    if cluster.power_saving:
        lines += power.slurm_conf_lines()
    if lua_cli_filter:
        lines.append("CliFilterPlugins=lua")
    return "\n".join(site.apply(cluster, lines, _lines_of_release(cluster))) + "\n"


def gres_conf(cluster: Cluster) -> str:
    lines = [f"Name=widget File={path}" for path in WIDGET_FILES]
    # As on a host of several sockets, each GPU is near some of the cores.
    for number, path in enumerate(cluster.gpu_files):
        first = number * cluster.cpus_per_node // cluster.gpus
        last = (number + 1) * cluster.cpus_per_node // cluster.gpus - 1
        lines.append(f"Name=gpu File={path} Cores={first}-{last} Flags=nvidia_gpu_env")
    return "\n".join(lines) + "\n"


def slurmdbd_conf() -> str:
    lines = [
        "AuthType=auth/munge",
        f"DbdHost={LOGIN}",
        f"DbdPort={SLURMDBD_PORT}",
        "SlurmUser=slurm",
        "PidFile=/run/slurm/slurmdbd.pid",
        "StorageType=accounting_storage/mysql",
        "StorageUser=slurm",
        "StorageLoc=slurm_acct_db",
    ]
    return "\n".join(lines) + "\n"


def plugstack_conf() -> str:
    return "include /etc/slurm/plugstack.conf.d/*.conf\n"


def cgroup_conf(cluster: Cluster) -> str:
    if control_group.version(cluster):
        return control_group.cgroup_conf(cluster)
    # From 24.05 on slurmd wants control groups that it can write to, unless it is told so.
    if _slurm_series(cluster) >= (24, 5):
        return "CgroupPlugin=disabled\n"
    # Without systemd, the plugin for version 2 does not start; nothing of version 1 is used.
    if Path("/sys/fs/cgroup/cgroup.procs").exists():
        return "CgroupAutomount=no\nCgroupPlugin=cgroup/v1\n"
    return "CgroupAutomount=no\n"
