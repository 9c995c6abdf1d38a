#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The bundle that `cmake --install` makes, made here from what was built.

usage: make_bundle_test.py LIBMPI_BRIDGE MPI_BRIDGE_WIREUP COMPAT
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[3] / "mpi_bridge/bundle"
sys.path.insert(0, str(TOOL))

from elf import ElfFile  # noqa: E402
from make_bundle import C_LIBRARY, OF_OTHER_SYSTEM, UNUSED_MODULE  # noqa: E402


def loaded_for(path: Path, environment: dict[str, str] | None = None) -> str:
    """What the loader says of an object when every symbol has to be found at once."""
    settings = {**os.environ, "LD_BIND_NOW": "1", **(environment or {})}
    done = subprocess.run(
        ["ldd", "-r", path], capture_output=True, text=True, check=True, env=settings
    )
    return done.stdout + done.stderr


def number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


class MadeBundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.scratch = tempfile.TemporaryDirectory()
        made = Path(cls.scratch.name) / "made"
        library, *programs, compat = (Path(path) for path in PATHS)
        for source, target in (
            (library, "lib/libmpi_bridge.so.0"),
            *((program, f"libexec/batchai/{program.name}") for program in programs),
        ):
            (made / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, made / target)
        sources = Path(cls.scratch.name) / "sources.txt"
        command = [sys.executable, "-B", TOOL / "make_bundle.py", made, compat, sources]
        for _ in range(2):  # as when an installation is repeated
            subprocess.run(command, check=True)
        cls.sources = sources.read_text().splitlines()
        # It must work wherever it is mounted.
        cls.bundle = Path(cls.scratch.name) / "moved"
        made.rename(cls.bundle)
        cls.manifest = json.loads((cls.bundle / "manifest.json").read_text())
        cls.objects = [
            path
            for path in cls.bundle.rglob("*")
            if path.is_file() and (".so" in path.name or path.parent.parent.name == "libexec")
        ]

    @classmethod
    def tearDownClass(cls) -> None:
        cls.scratch.cleanup()

    def test_what_was_copied_is_listed_by_its_path_on_this_machine(self) -> None:
        """The bills of materials of packages are made from the list."""
        self.assertTrue(all(Path(path).is_file() for path in self.sources), self.sources)
        self.assertTrue(any("libpmix.so" in path for path in self.sources), self.sources)

    def test_takes_nothing_from_this_machine_but_what_each_system_has_itself(self) -> None:
        self.assertGreater(len(self.objects), 8)
        for path in self.objects:
            for line in loaded_for(
                path, {"LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu"}
            ).splitlines():
                name, arrow, place = line.strip().partition(" => ")
                if arrow and not C_LIBRARY.fullmatch(name) and not OF_OTHER_SYSTEM.fullmatch(name):
                    self.assertTrue(place.startswith(str(self.bundle)), f"{path}: {line}")

    def test_has_no_libraries_for_the_memory_of_gpus(self) -> None:
        for path in self.objects:
            self.assertNotRegex(path.name, "cuda|rocm|amdhip|hsa|LLVM|_ze|perftest")
        # Those of Debian 13, and of other builds of UCX.
        unused = ["ucm_rocm", "uct_rocm", "uct_cuda", "uct_cuda_gdrcopy", "uct_gdr_copy", "uct_ze"]
        for name in (*unused, "ucx_perftest_rocm", "ucs_fuse"):
            self.assertTrue(UNUSED_MODULE.fullmatch(f"lib{name}.so.0"), name)
        for name in ("uct_cma", "uct_ib", "uct_ib_mlx5", "uct_rdmacm"):
            self.assertFalse(UNUSED_MODULE.fullmatch(f"lib{name}.so.0"), name)

    def test_has_pmix_apart_so_that_another_one_can_be_used(self) -> None:
        library = self.bundle / "lib/libmpi_bridge.so.0"
        self.assertIn("lib/mpi_bridge/pmix/libpmix.so.2", loaded_for(library))
        hidden = self.bundle / "lib/mpi_bridge/pmix"
        hidden.rename(self.bundle / "elsewhere")
        try:
            # This machine has one, where its loader finds it, with libraries of its own.
            for line in loaded_for(library).splitlines():
                if re.search("libpmix|libevent|libhwloc|libmunge", line):
                    self.assertNotIn(str(self.bundle), line)
        finally:
            (self.bundle / "elsewhere").rename(hidden)

    def test_finds_all_symbols(self) -> None:
        self.assertNotIn("undefined symbol", loaded_for(self.bundle / "lib/libmpi_bridge.so.0"))
        for name in ("mpi_bridge_gpus", "mpi_bridge_links", "mpi_bridge_wireup"):
            program = self.bundle / "libexec/batchai" / name
            done = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
            self.assertIn("Usage:", done.stdout)

    def test_needs_no_newer_c_library_than_the_manifest_says(self) -> None:
        newest = (0, 0)
        for path in self.objects:
            for version in ElfFile(path).required_versions():
                if found := re.fullmatch(r"GLIBC_(\d+\.\d+).*", version):
                    newest = max(newest, number(found[1]))
        self.assertEqual(newest, number(self.manifest["glibc"]))
        self.assertEqual(self.manifest["machine"], ElfFile(self.objects[0]).machine)
        self.assertRegex(self.manifest["pmix"], r"^\d+\.\d+")

    def test_brings_the_functions_that_an_older_c_library_lacks(self) -> None:
        lacking = {"arc4random", "arc4random_buf"}
        for path in self.objects:
            elf = ElfFile(path)
            used = {name for name, _, defined in elf.symbols() if not defined}
            if used & lacking:
                self.assertIn("libmpi_bridge_compat.so", elf.needed(), path)
                self.assertNotIn("GLIBC_2.36", elf.required_versions(), path)
                self.assertEqual(elf.needed().count("libmpi_bridge_compat.so"), 1)


if __name__ == "__main__":
    PATHS = sys.argv[1:6]
    unittest.main(argv=sys.argv[:1])
