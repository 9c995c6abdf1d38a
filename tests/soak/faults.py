# SPDX-License-Identifier: GPL-2.0-or-later
"""The faults of a soak. Each of them ends by itself: afterwards, the cluster is whole again."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))

from harness.cluster import Answer, Command, TestCluster  # noqa: E402

_SECONDS = 60


class Faults:
    """What can go wrong on a cluster of so many hosts. One fault at a time."""

    def __init__(self, cluster: TestCluster, hosts: int, dice: random.Random) -> None:
        self._cluster = cluster
        self._hosts = [f"h{number + 1}" for number in range(hosts)]
        self._dice = dice
        self._kinds: tuple[tuple[str, int, Callable[[], str]], ...] = (
            ("a process is killed", 6, self._kill_a_process),
            ("slurmd is killed", 2, self._kill_slurmd),
            ("slurmctld is started again", 1, self._restart_slurmctld),
            ("a job is queued again", 2, self._requeue),
            ("a job is suspended", 2, self._suspend),
            ("a node is drained", 2, self._drain),
            ("a job of higher priority comes", 1, self._preempt),
        )
        # There is one on a cluster with the trait `remote` only.
        self._server = cluster.shared.parent / "remote/faults"
        if self._server.exists():
            self._kinds += (("the file server does wrong", 6, self._file_server),)

    def one(self) -> str:
        """Lets something go wrong, and returns what it was."""
        weights = [weight for _, weight, _ in self._kinds]
        [(name, _, fault)] = self._dice.choices(self._kinds, weights)
        detail = fault()
        return f"{name}: {detail}" if detail else f"{name}: there was none"

    def _root(self, host: str, *words: str) -> Answer:
        return self._cluster.run(Command(words, host=host), _SECONDS, "root")

    def _kill_a_process(self) -> str:
        host = self._dice.choice(self._hosts)
        listed = self._root(host, "ps", "-u", "alice", "-o", "pid=,comm=").output.splitlines()
        if not listed:
            return ""
        process = self._dice.choice(listed).split()
        self._root(host, "kill", "-KILL", process[0])
        return f"{' '.join(process[1:])} on {host}"

    def _kill_slurmd(self) -> str:
        host = self._dice.choice(self._hosts)
        self._root(host, "pkill", "-KILL", "-x", "slurmd")
        time.sleep(self._dice.uniform(0, 4))
        self._start(host, "slurmd")
        return host

    def _restart_slurmctld(self) -> str:
        self._root("login", "pkill", "-x", "slurmctld")
        gone = ["sh", "-c", "while pgrep -x slurmctld > /dev/null; do sleep 0.2; done"]
        self._root("login", *gone)
        self._root("login", "slurmctld")
        return "on login"

    def _start(self, host: str, program: str) -> None:
        words = f"setsid -f {program} -D < /dev/null >> /var/log/soak-{program}.log 2>&1"
        self._root(host, "sh", "-c", words)

    def _running(self) -> str:
        words = ("squeue", "--noheader", "--states=RUNNING", "--user=alice", "--format=%A")
        found = self._root("login", *words).output.split()
        return self._dice.choice(found) if found else ""

    def _requeue(self) -> str:
        job = self._running()
        if job:
            self._root("login", "scontrol", "requeue", job)
            self._begin_soon(job)
        return job

    def _begin_soon(self, job: str) -> None:
        # Slurm would let it wait for two minutes.
        time.sleep(6)
        self._root("login", "scontrol", "update", f"job={job}", "StartTime=now")

    def _suspend(self) -> str:
        job = self._running()
        if job:
            self._root("login", "scontrol", "suspend", job)
            time.sleep(self._dice.uniform(0, 4))
            self._root("login", "scontrol", "resume", job)
        return job

    def _drain(self) -> str:
        host = self._dice.choice(self._hosts)
        node = f"nodename={host}"
        self._root("login", "scontrol", "update", node, "state=drain", "reason=soak")
        time.sleep(self._dice.uniform(0, 6))
        self._root("login", "scontrol", "update", node, "state=resume")
        return host

    def _file_server(self) -> str:
        usual = self._server.read_text()
        fault = self._dice.choice(("lost 300", "stale 20", "away 1", "full 1", "quota 1"))
        self._server.write_text(f"{usual.strip()} {fault}\n")
        time.sleep(self._dice.uniform(1, 6))
        self._server.write_text(usual)
        return fault

    def _preempt(self) -> str:
        host = self._dice.choice(self._hosts)
        words = ("sbatch", "--quiet", "--partition=urgent", "--exclusive", "--output=/dev/null")
        self._root("login", *words, f"--nodelist={host}", "--wrap=sleep 1")
        return host
