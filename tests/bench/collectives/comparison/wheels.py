# SPDX-License-Identifier: GPL-2.0-or-later
"""The libraries that come as Python wheels: installing them, and compiling their programs.

tests/bench/requirements.txt pins them. The extra of a line there names the folder that the wheel is
put into, and the family of candidates.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.cluster import BenchError

_HERE = Path(__file__).resolve().parents[1]
_REQUIREMENTS = _HERE.parent / "requirements.txt"
_LINE = re.compile(r'^(?P<pin>[\w-]+==[\w.]+) ; extra == "(?P<extra>\w+)"$', re.MULTILINE)
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


def pins() -> dict[str, list[str]]:
    """The wheels of each extra, such as {"mpich5": ["mpich==5.0.2"]}."""
    found: dict[str, list[str]] = {}
    for line in _LINE.finditer(_REQUIREMENTS.read_text()):
        found.setdefault(line["extra"], []).append(line["pin"])
    return found


def home() -> Path:
    """Where this version of the wheels is, new with every change of their pins."""
    version = hashlib.sha256(repr((sorted(pins().items()), sys.version_info[:2])).encode())
    cache = Path(os.environ.get("BATCHAI_CACHE") or "/var/cache/batchai").absolute()
    return cache / f"venv-bench-libraries-{version.hexdigest()[:12]}"


def prefix(extra: str) -> Path:
    """The folder with bin/, include/ and lib/ of an extra."""
    return home() / extra


def _run(argv: list[str], what: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise BenchError(f"{what}: {lines[-1].strip() if lines else 'no message'}")


def _install(extra: str) -> None:
    folder = prefix(extra)
    if (folder / "complete").exists():
        return
    python = home() / "bin/python"
    if not python.exists():
        _run([sys.executable, "-m", "venv", str(home())], "no virtual environment")
    wheels = pins()[extra]
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run(
        [*pip, "--no-deps", "--ignore-installed", "--prefix", str(folder), *wheels],
        f"{', '.join(wheels)} cannot be installed",
    )
    (folder / "complete").touch()


def _compile(family: str, recipe: Recipe, program: Path) -> None:
    sources = [_HERE / name for name in (*_COMMON, recipe.source)]
    newest = max(path.stat().st_mtime for path in (*sources, *_HERE.glob("*.hpp"), _REQUIREMENTS))
    if program.exists() and program.stat().st_mtime > newest:
        return
    folders = [prefix(extra) for extra in recipe.folders]
    includes = [word for each in folders for word in ("-isystem", str(each / "include"))]
    libraries = [f"-L{each}/lib" for each in folders] + [f"-l{name}" for name in recipe.libraries]
    # Not only libraries of its own but also what these load must be found there.
    paths = "-Wl,--disable-new-dtags,-rpath," + ":".join(f"{each}/lib" for each in folders)
    # The C++ bindings that MPI 3 removed need a library of their own.
    macros = ["-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"]
    compiler = os.environ.get("CXX", "c++")
    program.parent.mkdir(parents=True, exist_ok=True)
    _run(
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
                _install(extra)
            _compile(family, recipe, folder / f"bench_{family}")
        except BenchError as error:
            failures[family] = str(error)
    return failures
