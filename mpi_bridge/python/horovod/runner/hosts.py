# SPDX-License-Identifier: Apache-2.0
"""The lists of hosts that horovodrun accepts, and the placement of ranks on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Host:
    """A host, and how many ranks it may have."""

    name: str
    slots: int


def _host(text: str, separator: str) -> Host:
    name, found, slots = text.strip().partition(separator)
    if not name or (found and not slots.strip().isdigit()) or (found and int(slots) < 1):
        raise ValueError(f"{text.strip()!r} is not HOST or HOST{separator}SLOTS")
    return Host(name.strip(), int(slots) if found else 1)


def parse_list(text: str) -> list[Host]:
    """Return the hosts of "host1:2,host2:4"."""
    return [_host(part, ":") for part in text.split(",")]


def parse_file(lines: Iterable[str]) -> list[Host]:
    """Return the hosts of a file with a line "host1 slots=2" each; # begins a comment."""
    hosts = []
    for line in lines:
        text = line.partition("#")[0].strip()
        if text:
            hosts.append(_host(text.replace(" ", ""), "slots="))
    return hosts


def place(hosts: Iterable[Host], ranks: int) -> list[str]:
    """Return the host of each rank: hosts are filled in the order of the list."""
    places = [host.name for host in hosts for _ in range(host.slots)]
    if len(places) < ranks:
        raise ValueError(f"{ranks} ranks do not fit into {len(places)} slots of the hosts given")
    return places[:ranks]
