# SPDX-License-Identifier: Apache-2.0
"""The dynamic section, symbols and versions of 64-bit little-endian ELF objects."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Kinds of sections.
DYNAMIC, DYNAMIC_SYMBOLS, NEEDED_VERSIONS, SYMBOL_VERSIONS = 6, 11, 0x6FFFFFFE, 0x6FFFFFFF
# Tags of the dynamic section.
NEEDED, SONAME = 1, 14
# A flag of a needed version: the loader does without it.
WEAK = 2
SYMBOL_SIZE = 24


class Section(NamedTuple):
    """A section header."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class NeededVersion(NamedTuple):
    """A version of a library's symbols that an object was linked with."""

    library: str
    version: str
    index: int  # by which symbols refer to it
    record: int  # its place in the file
    weak: bool


class Symbol(NamedTuple):
    """A dynamic symbol."""

    name: str
    version_index: int
    defined: bool


class ElfFile:
    """An object's bytes, and what they say."""

    def __init__(self, path: Path) -> None:
        """Reads the file; ValueError when it is no such object."""
        self.path = path
        self.data = bytearray(path.read_bytes())
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is no 64-bit little-endian ELF object")
        self.machine: int = struct.unpack_from("<H", self.data, 18)[0]
        start = struct.unpack_from("<Q", self.data, 40)[0]
        size, count = struct.unpack_from("<HH", self.data, 58)
        self.sections = [
            Section(*struct.unpack_from("<IIQQQQIIQQ", self.data, start + i * size))
            for i in range(count)
        ]

    def needed(self) -> list[str]:
        """Names of the libraries that it is linked with."""
        return self._dynamic_texts(NEEDED)

    def soname(self) -> str:
        """The name by which it is linked with; empty when it has none."""
        return next(iter(self._dynamic_texts(SONAME)), "")

    def needed_versions(self) -> Iterator[NeededVersion]:
        """All of them."""
        section = self._section(NEEDED_VERSIONS)
        if section is None:
            return
        at = section.offset
        for _ in range(section.info):
            _, count, name, first, following = struct.unpack_from("<HHIII", self.data, at)
            library = self._text(section, name)
            record = at + first
            for _ in range(count):
                _, flags, index, text, after = struct.unpack_from("<IHHII", self.data, record)
                version = self._text(section, text)
                yield NeededVersion(library, version, index & 0x7FFF, record, bool(flags & WEAK))
                record += after
            at += following

    def required_versions(self) -> set[str]:
        """Those without which the loader refuses the object."""
        return {needed.version for needed in self.needed_versions() if not needed.weak}

    def symbols(self) -> Iterator[Symbol]:
        """All dynamic symbols."""
        table, versions = self._section(DYNAMIC_SYMBOLS), self._section(SYMBOL_VERSIONS)
        if table is None:
            return
        for i in range(1, table.size // SYMBOL_SIZE):
            at = table.offset + i * SYMBOL_SIZE
            name, _, _, section = struct.unpack_from("<IBBH", self.data, at)
            index = 1
            if versions is not None:
                index = struct.unpack_from("<H", self.data, versions.offset + i * 2)[0] & 0x7FFF
            yield Symbol(self._text(table, name), index, section != 0)

    def symbols_by_version(self, library: str) -> dict[str, set[str]]:
        """What it takes of the library, by the versions that it requires."""
        names = {
            needed.index: needed.version
            for needed in self.needed_versions()
            if needed.library == library and not needed.weak
        }
        found: dict[str, set[str]] = {version: set() for version in names.values()}
        for symbol in self.symbols():
            if not symbol.defined and symbol.version_index in names:
                found[names[symbol.version_index]].add(symbol.name)
        return found

    def make_weak(self, library: str, versions: list[str]) -> None:
        """Rewrites the file so that the loader takes a library that lacks these versions."""
        for needed in self.needed_versions():
            if needed.library == library and needed.version in versions:
                flags = struct.unpack_from("<H", self.data, needed.record + 4)[0]
                struct.pack_into("<H", self.data, needed.record + 4, flags | WEAK)
        self.path.write_bytes(self.data)

    def _section(self, kind: int) -> Section | None:
        return next((section for section in self.sections if section.kind == kind), None)

    def _text(self, section: Section, offset: int) -> str:
        start = self.sections[section.link].offset + offset
        return self.data[start : self.data.index(0, start)].decode()

    def _dynamic_texts(self, wanted: int) -> list[str]:
        section = self._section(DYNAMIC)
        if section is None:
            return []
        entries = self.data[section.offset : section.offset + section.size]
        return [
            self._text(section, value)
            for tag, value in struct.iter_unpack("<qQ", entries)
            if tag == wanted
        ]
