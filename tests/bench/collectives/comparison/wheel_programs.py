# SPDX-License-Identifier: GPL-2.0-or-later
"""Compiling the programs of the libraries that come as Python wheels.

The extra of a wheel is also the name of its family of candidates.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness import wheels
from harness.cluster import BenchError

_HERE = Path(__file__).resolve().parents[1]
_COMMON = ("collective.cpp", "collective_bench.cpp", "measure.cpp", "requests.cpp", "library.cpp")
_FLAGS = ("-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE")


@dataclass(frozen=True)
class Recipe:
    """What a program of a wheel is made of."""

    source: str
    libraries: tuple[str, ...]
    folders: tuple[str, ...]  # extras, in the order in which their files are looked for


_RECIPES = {
    "open_mpi5": Recipe("library_mpi.cpp", ("mpi",), ("open_mpi5",)),
    "mpich5": Recipe("library_mpi.cpp", ("mpi",), ("mpich5",)),
    "intel_mpi": Recipe("library_mpi.cpp", ("mpi",), ("intel_mpi",)),
    "one_ccl": Recipe(
        "library_one_ccl.cpp", ("ccl", "mpi"), ("one_ccl", "one_ccl_loader", "intel_mpi")
    ),
}


def _compile(family: str, recipe: Recipe, program: Path) -> None:
    sources = [_HERE / name for name in (*_COMMON, recipe.source)]
    newest = max(
        path.stat().st_mtime for path in (*sources, *_HERE.glob("*.hpp"), wheels.REQUIREMENTS)
    )
    if program.exists() and program.stat().st_mtime > newest:
        return
    folders = [wheels.prefix(extra) for extra in recipe.folders]
    includes = [word for each in folders for word in ("-isystem", str(each / "include"))]
    libraries = [f"-L{each}/lib" for each in folders] + [f"-l{name}" for name in recipe.libraries]
    # Not only libraries of its own but also what these load must be found there.
    paths = "-Wl,--disable-new-dtags,-rpath," + ":".join(f"{each}/lib" for each in folders)
    # The C++ bindings that MPI 3 removed need a library of their own.
    macros = ["-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"]
    compiler = os.environ.get("CXX", "c++")
    program.parent.mkdir(parents=True, exist_ok=True)
    wheels.run(
        [compiler, *_FLAGS, *macros, *includes, *map(str, sources), *libraries, paths]
        + ["-o", str(program)],
        f"{program.name} cannot be compiled",
    )


def make_programs(families: set[str], folder: Path) -> Mapping[str, str]:
    """Makes bench_FAMILY of these in the folder; returns why any of them could not be made."""
    failures = {}
    for family, recipe in _RECIPES.items():
        if family not in families:
            continue
        try:
            for extra in recipe.folders:
                wheels.install(extra)
            _compile(family, recipe, folder / f"bench_{family}")
        except BenchError as error:
            failures[family] = str(error)
    return failures
