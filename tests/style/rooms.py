#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Holds the includes of the tree to docs/rooms.txt, and draws the pictures of it.

rooms.py check         includes that the table does not allow, arrows that nothing needs any more,
                       rows that stand below a room which they include, pictures of another table
rooms.py draw          makes docs/images/house.svg and docs/images/mpi_bridge.svg, with Graphviz
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
TABLE = TREE / "docs/rooms.txt"
# A picture, and the rooms that are in it.
PICTURES = {
    TREE / "docs/images/house.svg": re.compile(r"(?!mpi_bridge/)|mpi_bridge/core$"),
    TREE / "docs/images/mpi_bridge.svg": re.compile(r"mpi_bridge/"),
}
FOLDERS = ("launcher", "spank", "mpi_bridge")
ENDINGS = (".cpp", ".hpp", ".c", ".h", ".inl", ".cu", ".hpp.in")
# Where an include is looked for, beside the file's own folder.
ROOTS = ("launcher", "mpi_bridge", "mpi_bridge/include", ".")
INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.MULTILINE)
EDGE = re.compile(r"<title>([^<]+)&#45;&gt;([^<]+)</title>")

Arrows = dict[str, set[str]]


def read_table() -> Arrows:
    """Returns what each room may include, in the order of the table."""
    arrows: Arrows = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            room, _, below = line.partition(":")
            arrows[room] = set(below.split())
    return arrows


def sources() -> list[Path]:
    """Returns the files that include others."""
    found = [path for folder in FOLDERS for path in (TREE / folder).rglob("*")]
    return [path for path in found if path.name.endswith(ENDINGS) and path.is_file()]


def room_of(path: Path, rooms: Arrows) -> str:
    """Returns the innermost room that has the file."""
    name = path.relative_to(TREE).as_posix()
    having = [room for room in rooms if name == room or name.startswith(f"{room}/")]
    return max(having, key=len, default="")


def find(include: str, path: Path) -> Path | None:
    """Returns the file of the tree that an include names; None if it is generated."""
    for folder in (path.parent, *(TREE / root for root in ROOTS)):
        found = (folder / include).resolve()
        if found.is_file() and found.is_relative_to(TREE):
            return found
    return None


def check_includes(allowed: Arrows) -> list[str]:
    """Returns the faults of files, and of rows."""
    faults, used = [], defaultdict(set)
    for path in sources():
        name = path.relative_to(TREE).as_posix()
        room = room_of(path, allowed)
        if not room:
            faults.append(f"{name} is in no room of {TABLE.name}")
            continue
        for include in INCLUDE.findall(path.read_text(encoding="utf-8")):
            found = find(include, path)
            below = room_of(found, allowed) if found else room
            used[room].add(below)
            if below not in (room, *allowed[room]):
                faults.append(f"{name} includes {include}, but {room} may not include {below}")
    order = list(allowed)
    for room, below in allowed.items():
        for other in sorted(below):
            if other not in order:
                faults.append(f"{room} may include {other}, which is not a room")
            elif order.index(other) <= order.index(room):
                faults.append(f"{room} may include {other}, which must stand below it")
            elif other not in used[room]:
                faults.append(f"{room} may include {other}, but does not: take it out")
    return faults


def drawn(allowed: Arrows, rooms: re.Pattern[str]) -> Arrows:
    """Returns the arrows of a picture: without those to which a way over other rooms leads."""
    inside = {room: below for room, below in allowed.items() if rooms.match(room)}
    reached: Arrows = {}
    for room in reversed(inside):
        below = inside[room] & inside.keys()
        reached[room] = below.union(*(reached[other] for other in below))
    return {
        room: {
            other
            for other in inside[room] & inside.keys()
            if not any(other in reached[between] for between in inside[room] & inside.keys())
        }
        for room in inside
    }


def check_pictures(allowed: Arrows) -> list[str]:
    """Returns the pictures that show other arrows than the table has."""
    faults = []
    for path, rooms in PICTURES.items():
        wanted = {(room, other) for room, below in drawn(allowed, rooms).items() for other in below}
        shown = set(EDGE.findall(path.read_text(encoding="utf-8"))) if path.is_file() else set()
        if shown != wanted:
            name = path.relative_to(TREE)
            faults.append(f"{name} shows another table: run tests/style/rooms.py draw")
    return faults


def draw(allowed: Arrows) -> None:
    """Makes the pictures."""
    for path, rooms in PICTURES.items():
        arrows = drawn(allowed, rooms)
        lines = [
            "digraph {",
            'node [shape=box, style="rounded,filled", fillcolor="#eef4fb", color="#2f6db3"]',
            'node [fontname="DejaVu Sans", fontsize=12, margin="0.12,0.06"]',
            'edge [color="#5b6b7a", arrowsize=0.7]',
            "graph [ranksep=0.35, nodesep=0.2]",
        ]
        lines += [f'"{room}"' for room in arrows]
        lines += [f'"{room}" -> "{other}"' for room in arrows for other in sorted(arrows[room])]
        text = "\n".join([*lines, "}"])
        made = subprocess.run(
            ["dot", "-Tsvg"], input=text, capture_output=True, text=True, check=True
        ).stdout
        # Which Graphviz has drawn it changes nothing.
        path.write_text(re.sub(r"<!-- Generated by.*?-->\n", "", made, flags=re.DOTALL))


def main() -> int:
    """Does what the command line says."""
    allowed = read_table()
    if sys.argv[1:] == ["draw"]:
        draw(allowed)
        return 0
    if sys.argv[1:] != ["check"]:
        print(__doc__, file=sys.stderr)
        return 2
    faults = check_includes(allowed) or check_pictures(allowed)
    for fault in faults:
        print(html.unescape(fault))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
