# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.distributed in C++, which is compiled for the torch that is installed.

    python3 -m mpi_bridge.torch_native build

needs a C++20 compiler and Python's headers, and takes half a minute, once for each version of torch
and of this package. The result is kept in $XDG_CACHE_HOME/mpi_bridge (~/.cache/mpi_bridge). Where
there is none, torch.distributed runs on the backend in Python, which does the same.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib.machinery
import importlib.util
import os
import platform
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

_MODULE = "mpi_bridge_torch"
_PACKAGE = Path(__file__).resolve().parent
_COMPILERS = ("c++", "g++", "clang++")


class NotBuiltError(RuntimeError):
    """The backend in C++ cannot be compiled, or must not be loaded; the text says why."""


def _source_folders() -> tuple[Path, Path]:
    """Return where the sources and the library's headers are: in a package, or in the tree."""
    packaged = _PACKAGE / "torch_backend"
    if packaged.is_dir():
        return packaged, packaged
    tree = _PACKAGE.parents[1]
    if not (tree / "torch" / "module.cpp").is_file():
        raise NotBuiltError(f"its sources are not in {packaged}")
    return tree / "torch", tree / "include"


def _cxx11_abi() -> int:
    import torch

    return int(torch._C._GLIBCXX_USE_CXX11_ABI)


@functools.cache
def _file_name() -> str:
    """Return the name of what is compiled: it says for what, and from which sources."""
    import torch

    sources, headers = _source_folders()
    digest = hashlib.sha256()
    version = torch.version
    of_torch = (torch.__version__, version.git_version, version.cuda, _cxx11_abi())
    for part in (*of_torch, sysconfig.get_config_var("SOABI"), platform.machine()):
        digest.update(f"{part}\0".encode())
    for path in sorted({*sources.rglob("*.[ch]pp"), *headers.glob("mpi_bridge*.h")}):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{_MODULE}-torch{torch.__version__}-{digest.hexdigest()[:16]}.so"


def _cache() -> Path:
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # As the specification of XDG_CACHE_HOME says.
    folder = named if named.is_absolute() else Path(os.path.expanduser("~"), ".cache")
    if not folder.is_absolute():
        raise NotBuiltError("this user has no home directory; set XDG_CACHE_HOME")
    return folder / "mpi_bridge"


def _require_own(path: Path) -> None:
    """Raise if somebody else could have written there: what is loaded runs as this user."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise NotBuiltError(f"{path} is a link")
    if found.st_uid not in (os.getuid(), 0):
        raise NotBuiltError(f"{path} belongs to user {found.st_uid}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotBuiltError(f"others can write to {path}; chmod go-w it, or remove it")


def built_file() -> Path | None:
    """Return what has been compiled for this torch, if it has been."""
    path = _cache() / _file_name()
    if not path.exists():
        return None
    _require_own(path.parent)
    _require_own(path)
    return path


def load() -> Any | None:
    """Return the module, or None if it has not been compiled for this torch."""
    path = built_file()
    if path is None:
        return None
    loader = importlib.machinery.ExtensionFileLoader(_MODULE, str(path))
    spec = importlib.util.spec_from_file_location(_MODULE, path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _compiler() -> list[str]:
    named = os.environ.get("CXX", "").split()
    for name in [named[0]] if named else _COMPILERS:
        if shutil.which(name):
            return named or [name]
    raise NotBuiltError(
        f"there is no C++ compiler (looked for {named[0] if named else ', '.join(_COMPILERS)}); "
        "install one, or name it in CXX"
    )


def _command(unit: Path, target: Path) -> list[str]:
    import torch

    python = Path(sysconfig.get_path("include"))
    if not (python / "Python.h").is_file():
        raise NotBuiltError(f"Python's headers are not in {python}; Debian has them in python3-dev")
    headers = Path(torch.__file__).parent / "include"
    system = [headers, headers / "torch" / "csrc" / "api" / "include", python]
    libraries = headers.parent / "lib"
    names = ["torch_python", "torch", "torch_cpu", "c10"]
    defines = [f"-D_GLIBCXX_USE_CXX11_ABI={_cxx11_abi()}"]
    if (libraries / "libtorch_cuda.so").exists():
        names.append("torch_cuda")
        defines.append("-DMPI_BRIDGE_TORCH_CUDA")
    return [
        *_compiler(),
        *("-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden"),
        *defines,
        *(f"-I{folder}" for folder in dict.fromkeys(_source_folders())),
        *(f"-isystem{folder}" for folder in system),
        *(str(unit), "-o", str(target), f"-L{libraries}", "-Wl,--no-as-needed"),
        *(f"-l{name}" for name in names),
    ]


def build() -> Path:
    """Compile for the torch that is installed, unless that has been done; return the file."""
    found = built_file()
    if found is not None:
        return found
    folder = _cache()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _require_own(folder)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        # One unit: torch's headers take longer than all of this code.
        unit = Path(scratch, "every_source.cpp")
        sources = _source_folders()[0]
        names = sorted(path.relative_to(sources) for path in sources.rglob("*.cpp"))
        unit.write_text("".join(f'#include "{name}"\n' for name in names))
        target = Path(scratch, "built.so")
        compiled = subprocess.run(
            _command(unit, target), capture_output=True, text=True, check=False
        )
        if compiled.returncode != 0:
            errors = [line for line in compiled.stderr.splitlines() if "error" in line]
            shown = "\n".join((errors or compiled.stderr.splitlines())[:5])
            raise NotBuiltError(f"the compiler fails with this torch:\n{shown}")
        os.chmod(target, 0o700)
        os.replace(target, folder / _file_name())
    return folder / _file_name()


def main(arguments: list[str] | None = None) -> int:
    """Build, or say what there is; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python3 -m mpi_bridge.torch_native",
        description="The backend of torch.distributed in C++, for the torch that is installed.",
        epilog="Example: python3 -m mpi_bridge.torch_native build",
    )
    parser.add_argument("verb", choices=("build", "show"), help="compile it, or say where it is")
    verb = parser.parse_args(arguments).verb
    try:
        import torch
    except ImportError as error:
        print(f"{parser.prog}: torch cannot be imported: {error}", file=sys.stderr)
        return 1
    try:
        found = built_file()
        if verb == "build" and found is None:
            print(f"compiling for torch {torch.__version__}, about half a minute", flush=True)
            found = build()
            load()
    except (NotBuiltError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted; nothing was kept", file=sys.stderr)
        return 130
    if found is None:
        print(f"not built for torch {torch.__version__}: torch.distributed runs in Python")
        return 1
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
