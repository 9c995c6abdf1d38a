# SPDX-License-Identifier: GPL-2.0-or-later
"""What a cluster is called and where its things are."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import NamedTuple

from .report import ClusterError

LOGIN = "login"
SWITCH = "switch"
_NETWORK = "10.77.0"
# More processors than the machine may have: tests are about placement and wiring, not speed.
CPUS_PER_NODE = 4
# With files, Slurm knows which of the widgets a job has.
WIDGET_FILES = ("/run/minicluster/widget0", "/run/minicluster/widget1")
_MOST_NODES = 64
# With the trait `slurmds`.
_NODES_PER_HOST = 2
_MOST_GPUS = 4


def home() -> Path:
    """The directory of all clusters: $MINICLUSTER_HOME, else /var/lib/minicluster."""
    return Path(os.environ.get("MINICLUSTER_HOME") or "/var/lib/minicluster").absolute()


class Cluster(NamedTuple):
    """One cluster's parameters. Everything else follows from them."""

    name: str
    nodes: int = 4
    prefix: str | None = None
    gpus: int = 0
    # The operating system of the hosts: "/" is the machine's own.
    system: str = "/"
    # Slurm switches hosts off and on (power.py).
    power_saving: bool = False
    # Device files of the machine's own GPUs, with commas between; `gpus` is then their number.
    gpu_devices: str = ""
    # What the site has beyond a plain Slurm (site.py).
    traits: tuple[str, ...] = ()

    def has(self, trait: str) -> bool:
        return trait in self.traits

    @property
    def cpus_per_node(self) -> int:
        """What Slurm is told. Tasks can be bound only to CPUs that the machine has."""
        have = os.cpu_count() or 1
        count = 2 * CPUS_PER_NODE if self.has("large") else CPUS_PER_NODE
        return min(count, have) if self.has("affinity") else count

    def hostname(self, host: str) -> str:
        """What the host calls itself; minicluster calls it `host`, and Slurm the node there."""
        return f"node-{host}" if self.has("hostnames") and host != LOGIN else host

    @property
    def gpu_files(self) -> list[str]:
        """The device files of a compute host's GPUs: the machine's own, or pretended ones."""
        if self.gpu_devices:
            return self.gpu_devices.split(",")
        return [f"/run/minicluster/gpu{number}" for number in range(self.gpus)]

    @property
    def pretended_devices(self) -> list[str]:
        """Device files that are made for each compute host. No program can open them."""
        return [*([] if self.gpu_devices else self.gpu_files), *WIDGET_FILES]

    @property
    def directory(self) -> Path:
        return home() / self.name

    @property
    def enter(self) -> Path:
        """The program of `minicluster exec`, for those that use it often."""
        return self.directory / "enter"

    @property
    def logs(self) -> Path:
        return self.directory / "log"

    @property
    def etc(self) -> Path:
        """Shown on every host: etc/batchai as /etc/batchai, and so on (rootfs.py)."""
        return self.directory / "etc"

    @property
    def power_directory(self) -> Path:
        return self.directory / "power"

    @property
    def remote(self) -> Path:
        """What the file system of the trait `remote` is made of."""
        return self.directory / "remote"

    @property
    def only_version_2(self) -> Path:
        """The library that shows slurmd the control groups of version 2 alone."""
        return self.directory / "only_version_2.so"

    @property
    def controllers(self) -> list[str]:
        """The hosts of slurmctld, the first of which has it at first."""
        return [LOGIN, "h1"] if self.has("backup") else [LOGIN]

    def is_configless(self, host: str) -> bool:
        """The host has no /etc/slurm: its slurmd fetches the files from a controller."""
        return self.has("configless") and host not in self.controllers

    @property
    def compute_nodes(self) -> list[str]:
        """What Slurm calls them."""
        return [f"h{number}" for number in range(1, self.nodes + 1)]

    def host_of(self, node: str) -> str:
        """The host where the slurmd of this node runs, which has the name of its first node."""
        if not self.has("slurmds") or node not in self.compute_nodes:
            return node
        number = int(node[1:])
        return f"h{number - (number - 1) % _NODES_PER_HOST}"

    def nodes_on(self, host: str) -> list[str]:
        """The nodes whose slurmds run there."""
        return [node for node in self.compute_nodes if self.host_of(node) == host]

    @property
    def compute_hosts(self) -> list[str]:
        return list(dict.fromkeys(map(self.host_of, self.compute_nodes)))

    @property
    def hosts(self) -> list[str]:
        return [LOGIN, *self.compute_hosts]

    def address(self, host: str) -> str:
        """The host's address. Clusters have networks of their own, so all use the same."""
        return f"{_NETWORK}.{254 if host == LOGIN else int(host[1:])}"

    def log(self, host: str, daemon: str) -> Path:
        return self.logs / f"{host}-{daemon}.log"

    def save(self) -> None:
        temporary = self.directory / "cluster.json.new"
        temporary.write_text(json.dumps(self._asdict()) + "\n")
        temporary.rename(self.directory / "cluster.json")


def check(cluster: Cluster) -> None:
    """Refuses parameters that cannot become a cluster."""
    if not re.fullmatch(r"[a-z][a-z0-9]{0,19}", cluster.name):
        raise ClusterError(
            f"the cluster name {cluster.name!r} is not usable",
            hint="use up to 20 lower-case letters and digits, a letter first",
        )
    if not 1 <= cluster.nodes <= _MOST_NODES:
        raise ClusterError(
            f"{cluster.nodes} nodes are not possible", hint=f"ask for 1 to {_MOST_NODES}"
        )
    if not (Path(cluster.system) / "usr/sbin/slurmd").exists():
        raise ClusterError(
            f"{cluster.system} has no slurmd", hint="install slurmd, slurmctld and slurmdbd there"
        )
    if cluster.prefix and cluster.system != "/":
        raise ClusterError("a prefix of this machine cannot be shown by hosts of another system")
    if not 0 <= cluster.gpus <= _MOST_GPUS:
        raise ClusterError(
            f"{cluster.gpus} GPUs per node are not possible", hint=f"ask for 0 to {_MOST_GPUS}"
        )
    for device in cluster.gpu_files if cluster.gpu_devices else []:
        if not Path(device).is_char_device():
            raise ClusterError(
                f"{device!r} is not a device file of a GPU", hint="for example /dev/nvidia0"
            )
    if cluster.gpu_devices and cluster.nodes != 1:
        raise ClusterError(
            "several nodes cannot have the same GPUs", hint="ask for one node, with --nodes 1"
        )


def load(name: str) -> Cluster | None:
    """The cluster as it was last brought up, or None."""
    try:
        fields = json.loads((home() / name / "cluster.json").read_text())
        return Cluster(**{**fields, "traits": tuple(fields["traits"])})
    except (FileNotFoundError, json.JSONDecodeError, TypeError, KeyError):
        return None
