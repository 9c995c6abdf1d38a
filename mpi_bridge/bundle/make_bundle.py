#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completes a relocatable bundle of mpi_bridge at installation.

usage: make_bundle.py BUNDLE COMPAT SOURCES

BUNDLE already has lib/libmpi_bridge.so.0 and the programs in libexec/batchai. Every shared
library that these need is copied beside them, found as this machine's loader finds it, with UCX's
modules and PMIx's components; the search paths of the copies become relative ($ORIGIN). What has to
be the other system's own is left out: the C library, the RDMA libraries, whose providers are found
by fixed paths, and the drivers of GPUs. So are UCX's modules for the memory of GPUs. COMPAT is a
library with functions that an older C library lacks; it is brought for the objects that use them.
SOURCES is a file for the list of what was copied from this machine, a path in each line.

  lib/mpi_bridge         UCX and what it needs; its modules are in ucx
  lib/mpi_bridge/pmix    PMIx and what only it needs; hidden where another libpmix is to be used
  lib/mpi_bridge/pmix/pmix_install   stands for PMIx's installation prefix (PMIX_INSTALL_PREFIX)
  none                   an empty directory, to hide another one with
  manifest.json          one line: the glibc that the bundle needs, its PMIx version, its machine
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from elf import ElfFile

C_LIBRARY = re.compile(
    r"(ld-linux.*|ld64|linux-vdso|libc|libm|libmvec|libpthread|libdl|librt|libutil|libanl"
    r"|libresolv|libBrokenLocale|libthread_db|libnss_.*)\.so.*"
)
OF_OTHER_SYSTEM = re.compile(
    r"(libibverbs|librdmacm|libmlx\d|libefa|libhns|libnl-.*|libcuda|libnvidia-.*)\.so.*"
)
# mpi_bridge gives UCX host memory only, so its modules for GPUs are of no use; Debian 13's need
# 240 MB of libraries. Nor are those of its own tools.
UNUSED_MODULE = re.compile(
    r"lib(ucx_perftest_\w+|ucs_fuse|uc[mst]_(cuda|rocm|ze|gdr_?copy)\w*)\.so.*"
)
PMIX = "libpmix.so.2"
UCS = "libucs.so.0"

Libraries = dict[str, Path]


def fail(text: str) -> None:
    """Ends the program."""
    sys.exit(f"make_bundle: {text}")


def output_of(*command: str | Path) -> str:
    """What the program prints; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def loaded_by(path: Path) -> dict[str, Path | None]:
    """Paths of the libraries that the loader finds for an object, by name; None: it finds none."""
    found = {}
    for line in output_of("ldd", path).splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        if not arrow or C_LIBRARY.fullmatch(name) or OF_OTHER_SYSTEM.fullmatch(name):
            continue
        found[name] = None if rest == "not found" else Path(rest.rpartition(" (")[0])
    return found


def closure(objects: Iterable[Path], without: Iterable[str] = (), *, whole: bool) -> Libraries:
    """All that the objects need, directly or not; with `whole`, nothing of it may be missing."""
    libraries: Libraries = {}
    todo = list(objects)
    while todo:
        path = todo.pop()
        places = loaded_by(path)
        for name in ElfFile(path).needed():
            if name not in places or name in libraries or name in without:
                continue
            place = places[name]
            if place is not None:
                libraries[name] = place
                todo.append(place)
            elif whole:
                fail(f"{path} needs {name}, which this machine's loader does not find")
    return libraries


def modules_in(directory: Path) -> Libraries:
    """The useful modules by the names that they are loaded by; links to one count once."""
    found = (path for path in directory.glob("*.so*") if not UNUSED_MODULE.fullmatch(path.name))
    files = {path.resolve() for path in found}
    return {ElfFile(path).soname() or path.name: path for path in sorted(files)}


def pmix_prefix(libpmix: Path) -> Path:
    """Its texts are in share/pmix: …/lib/libpmix.so, …/lib64/…, …/lib/x86_64-linux-gnu/…."""
    directory = libpmix.resolve().parent
    for prefix in (directory.parent, directory.parent.parent):
        if (prefix / "share/pmix").is_dir():
            return prefix
    return directory.parent


def copy(source: Path, target: Path) -> None:
    """Copies a library, whatever its mode."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)


class Bundle:
    """The directory, and what is known of it so far."""

    def __init__(self, directory: Path, compat: Path, sources: Path) -> None:
        """`directory` has the objects that the bundle is made for."""
        self.directory = directory
        self.compat = compat
        self.sources = sources
        self.brought: set[Path] = set()
        self.library = directory / "lib/libmpi_bridge.so.0"
        self.programs = sorted((directory / "libexec/batchai").iterdir())
        # Renamed into place when it is complete.
        self.private = directory / "lib/mpi_bridge.new"
        self.lacking = {symbol.name for symbol in ElfFile(compat).symbols() if symbol.defined}
        self.brings_compat = False
        self.glibc = (0, 0)

    def make(self) -> None:
        """Brings everything and writes the manifest."""
        final = self.directory / "lib/mpi_bridge"
        # Also the complete one: libraries would be found there.
        for stale in (self.private, final):
            shutil.rmtree(stale, ignore_errors=True)
        (self.directory / "none").mkdir(exist_ok=True)
        # As an earlier run has left them, our own objects need it already.
        compat = self.compat.name
        every = closure([self.library, *self.programs], [compat], whole=True)
        libpmix = every[PMIX]
        components = modules_in(libpmix.resolve().parent / "pmix")
        modules = modules_in(every[UCS].resolve().parent / "ucx") if UCS in every else {}
        main = closure([self.library], [PMIX, compat], whole=True)
        main |= closure(modules.values(), [PMIX, *modules], whole=False)
        of_pmix = {PMIX: libpmix} | closure([libpmix], whole=True)
        of_pmix |= closure(components.values(), whole=False)
        of_pmix = {name: path for name, path in of_pmix.items() if name not in main}

        pmix = self.private / "pmix"
        self.bring(self.private, main, [self.private])
        self.bring(self.private / "ucx", modules, [self.private / "ucx", self.private])
        self.bring(pmix, of_pmix, [pmix, self.private])
        self.bring_pmix_installation(libpmix, components)
        for path in (self.library, *self.programs):
            # The installation has the same files with what debuggers need.
            output_of("strip", "--strip-debug", path)
            # One of the programs needs the library.
            self.search(path, [final / "pmix", final, self.library.parent])
        if self.brings_compat:
            copy(self.compat, self.private / self.compat.name)
            self.count_c_library(self.private / self.compat.name)
        self.private.rename(final)
        lines = sorted(f"{path.resolve()}\n" for path in self.brought)
        self.sources.write_text("".join(lines), encoding="utf-8")
        self.write_manifest(libpmix)

    def bring_pmix_installation(self, libpmix: Path, components: Libraries) -> None:
        """The components and texts that libpmix looks for below its installation prefix."""
        prefix = pmix_prefix(libpmix)
        root = self.private / "pmix/pmix_install"
        directory = root / libpmix.resolve().parent.relative_to(prefix) / "pmix"
        self.bring(directory, components, [self.private / "pmix", self.private])
        if (prefix / "share/pmix").is_dir():
            shutil.copytree(prefix / "share/pmix", root / "share/pmix")

    def bring(self, directory: Path, libraries: Libraries, places: list[Path]) -> None:
        """Copies the libraries under their names, and lets them search the places for others."""
        directory.mkdir(parents=True, exist_ok=True)
        for name, path in libraries.items():
            target = directory / name
            copy(path, target)
            self.brought.add(path)
            self.search(target, places)

    def search(self, path: Path, places: list[Path]) -> None:
        """Lets the object search for others in these places only, wherever the bundle is."""
        relative = (os.path.relpath(place, path.parent) for place in places)
        # RPATH, not RUNPATH: an image's LD_LIBRARY_PATH must not mix its libraries with these.
        rpath = ":".join(f"$ORIGIN/{place}".removesuffix("/.") for place in relative)
        output_of("patchelf", "--force-rpath", "--set-rpath", rpath, path)
        self.suit_older_c_library(path)

    def suit_older_c_library(self, path: Path) -> None:
        """Takes from COMPAT what the object would need a newer C library for."""
        elf = ElfFile(path)
        self.brings_compat |= self.compat.name in elf.needed()
        of_c_library = elf.symbols_by_version("libc.so.6")
        avoidable = [
            version
            for version, symbols in of_c_library.items()
            if symbols and symbols <= self.lacking
        ]
        if avoidable:
            output_of("patchelf", "--add-needed", self.compat.name, path)
            ElfFile(path).make_weak("libc.so.6", avoidable)
            self.brings_compat = True
        self.count_c_library(path)

    def count_c_library(self, path: Path) -> None:
        """Keeps the newest release that an object needs."""
        for version in ElfFile(path).required_versions():
            # What has relative relocations in short form says so without a number.
            text = "GLIBC_2.36" if version == "GLIBC_ABI_DT_RELR" else version
            if number := re.fullmatch(r"GLIBC_(\d+)\.(\d+).*", text):
                self.glibc = max(self.glibc, (int(number[1]), int(number[2])))

    def write_manifest(self, libpmix: Path) -> None:
        """What the node has to know before it shows the bundle."""
        version = re.search(rb"OpenPMIx ([0-9][0-9A-Za-z.]*)", libpmix.read_bytes())
        if version is None:
            fail(f"{libpmix} does not tell its version")
        manifest = {
            "schema": "batchai-bundle/v1",
            "glibc": f"{self.glibc[0]}.{self.glibc[1]}",
            "pmix": version[1].decode(),
            "machine": ElfFile(self.library).machine,
        }
        fresh = self.directory / "manifest.json.new"
        fresh.write_text(json.dumps(manifest) + "\n", encoding="utf-8")
        fresh.rename(self.directory / "manifest.json")


def main() -> None:
    """The program."""
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    Bundle(*map(Path, sys.argv[1:])).make()


if __name__ == "__main__":
    main()
