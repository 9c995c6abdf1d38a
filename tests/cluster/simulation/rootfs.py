# SPDX-License-Identifier: GPL-2.0-or-later
"""A host's file system: the machine's, with everything that hosts must not share made private.

Everything is mounted in the host's own mount namespace, so nothing has to be unmounted later: the
mounts go with the host's last process.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from . import accounts, control_group, kernel, site
from .layout import LOGIN, Cluster

_MADE_HERE = {"proc", "sys", "etc", "tmp", "run", "home", "shared", "lost+found"}
_RUNTIME_OWNERS = {"munge": "root", "slurm": "root", "mysqld": "slurm", "lock": "root"}
# The major number of NVIDIA's devices: nothing answers to it on a machine without that driver.
_NVIDIA_MAJOR = 195
# Directories of Cluster.etc that hosts have as their own.
SHARED_ETC = ("slurm", "site", "batchai", "munge", "mariadb")
_HIDDEN_TREES = ("/tmp", "/run", "/home", "/shared", "/dev/shm")


def _tmpfs(target: Path, mode: int, flags: int = 0) -> None:
    target.mkdir(parents=True, exist_ok=True)
    kernel.mount("tmpfs", str(target), "tmpfs", flags, f"mode={mode:o}")


def _bind_system(cluster: Cluster, root: Path) -> None:
    """Every directory of the system that is not made afresh; devices are the machine's."""
    for entry in os.scandir(cluster.system):
        if entry.name in _MADE_HERE:
            continue
        if entry.name == "dev":
            (root / "dev").mkdir()
            kernel.bind("/dev", str(root / "dev"))
            continue
        if entry.is_symlink():
            (root / entry.name).symlink_to(Path(entry.path).readlink())
        elif entry.is_dir():
            (root / entry.name).mkdir()
            kernel.bind(entry.path, str(root / entry.name))


def _make_etc(cluster: Cluster, host: str, root: Path) -> None:
    """The machine's /etc with a private writable layer that holds the host's identity."""
    layer = root / ".host"
    _tmpfs(layer, 0o700)
    for name in ("upper", "work"):
        (layer / name).mkdir()
    (layer / "upper").chmod(0o755)
    etc = root / "etc"
    etc.mkdir()
    kernel.mount(
        "overlay",
        str(etc),
        "overlay",
        0,
        f"lowerdir={Path(cluster.system) / 'etc'},upperdir={layer}/upper,workdir={layer}/work",
    )
    # Slurm's name first, by which the other hosts are addressed.
    addresses = [
        " ".join([cluster.address(other), *dict.fromkeys([other, cluster.hostname(other)])])
        for other in cluster.hosts
    ]
    path = f"{cluster.prefix}/bin:$PATH" if cluster.prefix else "$PATH"
    files = {
        "hostname": f"{cluster.hostname(host)}\n",
        "hosts": "\n".join(["127.0.0.1 localhost", *addresses]) + "\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
        "resolv.conf": "",
        "passwd": accounts.password_file(cluster.system),
        "group": accounts.group_file(cluster.system),
        "profile.d/minicluster.sh": f"export PATH={path}\n",
    }
    for name, text in files.items():
        file = etc / name
        file.unlink(missing_ok=True)
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o644)
    for name in SHARED_ETC:
        if name == "slurm" and cluster.is_configless(host):
            shutil.rmtree(etc / name, ignore_errors=True)
            continue
        (etc / name).mkdir(exist_ok=True)
        kernel.bind(str(cluster.etc / name), str(etc / name))


def _make_device_files(cluster: Cluster, root: Path) -> None:
    """Device files that Slurm can hand out."""
    for number, path in enumerate(cluster.pretended_devices):
        node = root / path.lstrip("/")
        node.parent.mkdir(exist_ok=True)
        os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(_NVIDIA_MAJOR, number))
        node.chmod(0o666)


def _make_runtime(cluster: Cluster, host: str, root: Path) -> None:
    _tmpfs(root / "tmp", 0o1777, kernel.MS_NOEXEC if cluster.has("noexec") else 0)
    for node in cluster.nodes_on(host) if cluster.has("slurmds") else []:
        directory = root / "tmp" / f"slurm-{node}"
        directory.mkdir()
        directory.chmod(0o1777)
    _tmpfs(root / "run", 0o755)
    for name, owner in _RUNTIME_OWNERS.items():
        directory = root / "run" / name
        directory.mkdir()
        directory.chmod(0o1777 if name == "lock" else 0o755)
        shutil.chown(directory, owner)
    users = root / "run" / "user"
    users.mkdir()
    for user in accounts.USERS:
        own = users / str(user.number)
        own.mkdir(mode=0o700)
        os.chown(own, user.number, user.number)


def _make_kernel_views(cluster: Cluster, root: Path) -> None:
    """/proc of the host's processes, /sys of its network, /dev with private shared memory."""
    for name in ("proc", "sys"):
        (root / name).mkdir()
    hides = "hidepid=2" if cluster.has("hidepid") else None
    kernel.mount("proc", str(root / "proc"), "proc", 0, hides)
    kernel.mount("sysfs", str(root / "sys"), "sysfs")
    kernel.bind("/sys/fs/cgroup", str(root / "sys/fs/cgroup"))
    control_group.show(cluster, root)
    kernel.mount("tmpfs", str(root / "dev/shm"), "tmpfs", 0, "mode=1777")
    if (root / "dev/mqueue").is_dir():
        kernel.mount("mqueue", str(root / "dev/mqueue"), "mqueue")
    if (root / "dev/fuse").exists():
        # Many machines keep the device for root; sites that run containers open it to all.
        node = root / ".host" / "fuse"
        os.mknod(node, stat.S_IFCHR | 0o666, Path("/dev/fuse").stat().st_rdev)
        node.chmod(0o666)
        kernel.bind(str(node), str(root / "dev/fuse"))


def _make_service_state(cluster: Cluster, host: str, root: Path) -> None:
    state = root / "var/lib/slurm"
    _tmpfs(state, 0o755)
    for name in ("slurmd", "slurmctld"):
        (state / name).mkdir()
    shutil.chown(state / "slurmctld", "slurm", "slurm")
    if host in cluster.controllers:
        kernel.bind(str(cluster.directory / "state/slurmctld"), str(state / "slurmctld"))
    if host == LOGIN:
        database = root / "run/mysqld/data"
        database.mkdir()
        kernel.bind(str(cluster.directory / "state/mariadb"), str(database))
        if cluster.power_saving:
            requests = root / "run/minicluster"
            requests.mkdir()
            kernel.bind(str(cluster.power_directory), str(requests))


def _show(visible: dict[str, int], root: Path) -> None:
    """Trees that the private mounts hide, given as descriptors, at their own path again."""
    for path, descriptor in visible.items():
        target = root / path.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        kernel.bind(f"/proc/self/fd/{descriptor}", str(target))


def hidden(path: str) -> bool:
    """True if the host's private mounts cover this path of the machine."""
    return any(path == tree or path.startswith(tree + "/") for tree in _HIDDEN_TREES)


def enter_new_root(cluster: Cluster, host: str, show: list[str]) -> None:
    """Builds the tree and makes it this process's root. Wants new mount, net and pid namespaces."""
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    root = cluster.directory / "root"
    visible = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in show if hidden(path)}
    _tmpfs(root, 0o755)
    # Unbindable: else the copy of /var made below would contain this very tree.
    kernel.mount(None, str(root), None, kernel.MS_UNBINDABLE)
    _bind_system(cluster, root)
    _make_etc(cluster, host, root)
    _make_runtime(cluster, host, root)
    if host != LOGIN:
        _make_device_files(cluster, root)
    _make_kernel_views(cluster, root)
    _make_service_state(cluster, host, root)
    for name in ("home", "shared"):
        (root / name).mkdir()
        if cluster.has("remote"):
            site.mount_remote(cluster, name, root / name, squash=host != LOGIN)
        else:
            kernel.bind(str(cluster.directory / name), str(root / name))
    _show(visible, root)
    kernel.make_root(str(root))
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
