# SPDX-License-Identifier: GPL-2.0-or-later
"""A host is a set of namespaces held by one process, its anchor: pid 1 of the host.

When the anchor ends the kernel ends every process of the host, and with them go the mounts and the
network interface. So a cluster is always cleared by ending its anchors, whatever else happened.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from . import control_group, kernel, rootfs
from .anchors import anchor_words, anchors_of, processes
from .layout import SWITCH, Cluster
from .report import ClusterError


def _hold(cluster: Cluster, host: str, show: list[str], report: int) -> None:
    """In the anchor: builds the host, says so, and waits for ever."""
    # A new session and no descriptor of the caller's: nobody waits for a pipe that we hold open.
    nothing = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.dup2(report, 3)
    os.closerange(4, 65536)
    try:
        if host != SWITCH:
            control_group.enter(cluster, host)
            rootfs.enter_new_root(cluster, host, show)
            socket.sethostname(cluster.hostname(host))
            ipv6 = Path("/proc/sys/net/ipv6/conf/all/disable_ipv6")
            if ipv6.exists():
                ipv6.write_text("1")
    except Exception as error:
        os.write(3, f"error {error}\n".encode())
        os._exit(1)
    os.write(3, b"ready\n")
    # Ignored, so that the kernel itself buries the host's orphans.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.set_inheritable(3, False)
    os.execv("/usr/bin/sleep", ["\n".join(anchor_words(cluster, host)), "infinity"])


def start(cluster: Cluster, host: str, show: list[str]) -> int:
    """Starts the host's anchor and does not wait; returns a descriptor for `await_start`."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            flags = kernel.CLONE_NEWNET | kernel.CLONE_NEWPID | kernel.CLONE_NEWNS
            kernel.unshare(flags | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC)
            if os.fork() == 0:
                _hold(cluster, host, show, writer)
        except OSError as error:
            os.write(writer, f"error {error}\n".encode())
        finally:
            # Also when the caller was killed and nobody reads: this process must not live on.
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    return reader


def await_start(host: str, reader: int) -> None:
    with os.fdopen(reader) as report:
        # To the end of file: the anchor is complete when exec closed its side.
        answer = report.read().strip()
    if answer != "ready":
        raise ClusterError(
            f"host {host} did not start: {answer.removeprefix('error ') or 'its anchor ended'}",
            hint="it needs namespaces and mounts, which an unprivileged container lacks",
        )


def members(anchor: int) -> dict[int, str]:
    """Process id and name of every process of a host, the anchor not among them."""
    try:
        namespace = Path(f"/proc/{anchor}/ns/pid").readlink()
    except OSError:
        return {}
    found = {}
    for pid in processes():
        try:
            if pid != anchor and Path(f"/proc/{pid}/ns/pid").readlink() == namespace:
                found[pid] = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            continue
    return found


def enter_command(anchor: int) -> list[str]:
    """The words before a command that make it run in the host, as root."""
    return ["nsenter", "-t", str(anchor), "-n", "-u", "-i", "-m", "-p", "-C", "--"]


# Its arguments are files, "--" and a command.
_JOIN = 'while [ "$1" != -- ]; do echo 0 > "$1"; shift; done; shift; exec "$@"'


def _enter_with_groups(anchor: int) -> list[str]:
    """The same for a command that is in the host's control groups as well.

    The namespace of groups alone does not put it there. It comes to them as a process of the host:
    from 26.05 on, slurmd does not start where a group has one from outside, such as the nsenter
    that waits for it.
    """
    files = control_group.files_to_join(anchor)
    if not files:
        return enter_command(anchor)
    first = ["nsenter", "-t", str(anchor), "-p", "--", "sh", "-ec", _JOIN, "join", *files, "--"]
    return first + [word for word in enter_command(anchor) if word != "-p"]


def run(anchor: int, argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command in the host as root and returns its output."""
    return subprocess.run(
        enter_command(anchor) + argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def spawn(
    anchor: int,
    argv: list[str],
    log: Path,
    files: int = 0,
    variables: dict[str, str] | None = None,
) -> None:
    """Starts a daemon in the host. It becomes a child of the host's anchor.

    `files` is its soft limit of open files; 0: that of this process. `variables` are added to its
    environment.
    """
    limit = ["prlimit", f"--nofile={files}:"] if files else []
    # Not in this program's environment: a library to be preloaded is a file that the host shows.
    added = ["env", *(f"{name}={value}" for name, value in variables.items())] if variables else []
    with log.open("ab") as output:
        subprocess.run(
            [*_enter_with_groups(anchor), *limit, "setsid", "--fork", *added, *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
            check=True,
        )


def _ended(pid: int) -> bool:
    """True when the process has ended, even if its parent has not collected it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _wait_for_all(pids: list[int], seconds: float, condition: Callable[[int], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not all(condition(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def wait_for_end(pids: list[int]) -> bool:
    """Waits for these processes, which have been killed. False if one of them does not end."""
    if not _wait_for_all(pids, 20, _ended):
        return False
    # The machine's init collects them when it gets to it; some containers' init never does.
    _wait_for_all(pids, 5, lambda pid: not Path(f"/proc/{pid}").exists())
    return True


def kill(pids: list[int], cluster_name: str) -> None:
    """Ends the hosts of these anchors and waits for their last process."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    if not wait_for_end(pids):
        raise ClusterError(
            f"processes of cluster {cluster_name} do not end (anchors {pids})",
            hint="a process in uninterruptible sleep holds them; see ps -eo pid,stat,wchan,cmd",
        )


def end(cluster: Cluster) -> None:
    """Ends every host of the cluster."""
    kill(list(anchors_of(cluster).values()), cluster.name)
