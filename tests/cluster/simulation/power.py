# SPDX-License-Identifier: GPL-2.0-or-later
"""Power saving: hosts that Slurm switches off and on.

Slurm's programs run as the user slurm on the login host, where nobody may end a host. They write
the names of hosts to a pipe, and a service of root's outside of all hosts reads it. The service
takes nothing but "resume HOST" and "suspend HOST".
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from . import daemons, host, network, settings
from .anchors import anchors_of, command_line, processes
from .layout import LOGIN, SWITCH, Cluster
from .report import ClusterError

# Where the login host has the directory of the pipe.
SHOWN_AT = "/run/minicluster"
_PROGRAMS = {"suspend": "SuspendProgram", "resume": "ResumeProgram"}
_PROGRAM = """#!/bin/bash
# Slurm gives its programs no PATH.
PATH=/usr/bin:/bin
for host in $(scontrol show hostnames "$1"); do
    timeout 5 bash -c 'echo "$1" > {shown}/requests' bash "{verb} $host"
done
"""


def slurm_conf_lines() -> list[str]:
    """Short timers: a host starts and ends within seconds."""
    programs = [f"{key}=/etc/slurm/power/{verb}" for verb, key in _PROGRAMS.items()]
    return [
        *programs,
        "SuspendTime=600",
        "SuspendTimeout=5",
        "ResumeTimeout=25",
        "SuspendRate=0",
        "ResumeRate=0",
        "SlurmctldParameters=power_save_interval=1",
    ]


def configure(cluster: Cluster) -> None:
    """Writes the programs that slurm.conf names, or removes them."""
    directory = cluster.etc / "slurm" / "power"
    if not cluster.power_saving:
        shutil.rmtree(directory, ignore_errors=True)
        return
    directory.mkdir(exist_ok=True)
    for verb in _PROGRAMS:
        settings.put(directory / verb, _PROGRAM.format(verb=verb, shown=SHOWN_AT), mode=0o755)


def _mark(cluster: Cluster, kind: str, name: str) -> Path:
    return cluster.power_directory / f"{kind}-{name}"


def is_off(cluster: Cluster, name: str) -> bool:
    """True if Slurm has switched the host off, so that nothing of it is to be expected."""
    return _mark(cluster, "off", name).exists()


def set_broken(cluster: Cluster, name: str, broken: bool) -> None:
    """A broken host does not come up when Slurm switches it on."""
    if not cluster.power_saving:
        raise ClusterError(
            f"cluster {cluster.name} has no power saving", hint="minicluster up --power-saving"
        )
    if name not in cluster.compute_hosts:
        raise ClusterError(f"cluster {cluster.name} has no compute host {name}")
    mark = _mark(cluster, "broken", name)
    if broken:
        mark.touch()
    else:
        mark.unlink(missing_ok=True)


def make_directory(cluster: Cluster) -> None:
    """Makes the pipe, to which only Slurm's user and root can write."""
    cluster.power_directory.mkdir()
    pipe = cluster.power_directory / "requests"
    os.mkfifo(pipe, 0o600)
    shutil.chown(pipe, "slurm", "slurm")


def _service_words(cluster: Cluster) -> list[str]:
    return ["serve-power", "--name", cluster.name, "--directory", str(cluster.directory)]


def start_service(cluster: Cluster, script: str) -> None:
    """Starts the service, which lives until the cluster is brought down."""
    log = cluster.log(LOGIN, "power")
    with log.open("ab") as output:
        subprocess.Popen(
            [sys.executable, "-I", script, *_service_words(cluster)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    daemons.wait_until("the power service", 20, lambda: services(cluster) != [], log)


def services(cluster: Cluster) -> list[int]:
    """Process ids of the cluster's service: one, or none."""
    words = _service_words(cluster)
    return [pid for pid in processes() if command_line(pid)[-len(words) :] == words]


def end_service(cluster: Cluster) -> None:
    """Ends the service, so that no host is started any more."""
    pids = services(cluster)
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    host.wait_for_end(pids)


def _switch_off(cluster: Cluster, name: str) -> None:
    _mark(cluster, "off", name).touch()
    anchors = anchors_of(cluster)
    if name in anchors:
        host.kill([anchors[name]], cluster.name)
    if SWITCH in anchors:
        network.disconnect(anchors[SWITCH], name)


def _switch_on(cluster: Cluster, names: list[str], show: list[str]) -> None:
    running = anchors_of(cluster)
    readers = {
        name: host.start(cluster, name, show)
        for name in names
        if name not in running and not _mark(cluster, "broken", name).exists()
    }
    for name, reader in readers.items():
        host.await_start(name, reader)
    anchors = anchors_of(cluster)
    for name in readers:
        network.connect_host(cluster, anchors, name)
        _mark(cluster, "off", name).unlink(missing_ok=True)
    daemons.start_munge(cluster, anchors, list(readers))
    # Slurm subtracts a host's time since its start from the present time, both in whole seconds.
    # If the host starts within a second of the request, the result may lie before the request, and
    # Slurm waits for the host until ResumeTimeout.
    time.sleep(1)
    for name in readers:
        daemons.start_slurmd(cluster, anchors, name, booted=True)


def _obey(cluster: Cluster, text: str, show: list[str]) -> None:
    # The last word about a host counts.
    wanted = {}
    for line in text.splitlines():
        verb, _, name = line.partition(" ")
        if verb in _PROGRAMS and name in cluster.compute_hosts:
            wanted[name] = verb
    print(f"{time.strftime('%H:%M:%S')} {wanted}", flush=True)
    for name, verb in wanted.items():
        if verb == "suspend":
            _switch_off(cluster, name)
    _switch_on(cluster, [name for name, verb in wanted.items() if verb == "resume"], show)


def serve(cluster: Cluster, show: list[str]) -> None:
    """Obeys Slurm's programs until it is killed."""
    # Opened for writing as well, so that there is no end of file when a program closes it.
    pipe = os.open(cluster.power_directory / "requests", os.O_RDWR)
    while True:
        text = os.read(pipe, 1 << 16).decode(errors="replace")
        try:
            _obey(cluster, text, show)
        except (ClusterError, OSError, subprocess.CalledProcessError) as error:
            # Slurm notices by itself that a host does not come up.
            print(f"failed: {error}", flush=True)
