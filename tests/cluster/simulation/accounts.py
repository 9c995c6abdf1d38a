# SPDX-License-Identifier: GPL-2.0-or-later
"""The users of the simulated hosts. The accounts of their system stay as they are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .layout import Cluster


@dataclass(frozen=True)
class User:
    name: str
    number: int  # user id and group id


USERS = (User("alice", 20001), User("bob", 20002))
SHARED_GROUP = "research"
_SHARED_GROUP_NUMBER = 20100
_FIRST_ORDINARY = 1000
_NOBODY = 65534


def _system_lines(file: Path) -> list[str]:
    """The system accounts: the daemons run as them. Ordinary users are left out."""
    lines = file.read_text().splitlines()
    ids = [(line, int(line.split(":")[2])) for line in lines if line.count(":") >= 3]
    taken = {user.number for user in USERS} | {_SHARED_GROUP_NUMBER}
    return [
        line
        for line, number in ids
        if (number < _FIRST_ORDINARY or number >= _NOBODY or "slurm" in line)
        and number not in taken
    ]


def password_file(system: str) -> str:
    own = [
        f"{user.name}:x:{user.number}:{user.number}:{user.name}:/home/{user.name}:/bin/bash"
        for user in USERS
    ]
    return "\n".join(_system_lines(Path(system) / "etc/passwd") + own) + "\n"


def group_file(system: str) -> str:
    own = [f"{user.name}:x:{user.number}:" for user in USERS]
    members = ",".join(user.name for user in USERS)
    own.append(f"{SHARED_GROUP}:x:{_SHARED_GROUP_NUMBER}:{members}")
    return "\n".join(_system_lines(Path(system) / "etc/group") + own) + "\n"


def make_homes(cluster: Cluster) -> None:
    """Home directories and the scratch directory that all hosts share."""
    homes = cluster.directory / "home"
    homes.mkdir(exist_ok=True)
    homes.chmod(0o755)
    for user in USERS:
        own = homes / user.name
        own.mkdir(exist_ok=True)
        own.chmod(0o700)
        os.chown(own, user.number, user.number)
    shared = cluster.directory / "shared"
    shared.mkdir(exist_ok=True)
    shared.chmod(0o1777)
