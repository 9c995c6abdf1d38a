# SPDX-License-Identifier: GPL-2.0-or-later
"""Sections of a document that a benchmark writes; the words around them are people's."""

from __future__ import annotations

from pathlib import Path

from .cluster import BenchError


def replace_section(path: Path, name: str, section: str) -> None:
    """Puts the section between its two marks in the document, which must have them."""
    begin, end = f"<!-- measured: {name} -->", f"<!-- end of {name} -->"
    before, found_begin, rest = path.read_text().partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise BenchError(f"{path} lacks the line {begin} or {end}")
    path.write_text(f"{before}{begin}\n\n{section}\n{end}{after}")


def chart(name: str, title: str) -> str:
    """What stands in a document of docs/ for a chart that scripts/docs draws into its pages."""
    return f"<!-- chart: {name}: {title} -->"


def picture(name: str, title: str) -> str:
    """The same in a document that has the picture beside it."""
    return f"![{title}]({name})"
