# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel; pyproject.toml has the rest of the description.

With MPI_BRIDGE_LIBRARY=/path/to/libmpi_bridge.so the wheel contains the library, for this machine's
system and processor and for every Python 3. Otherwise it is pure Python and looks for an installed
library.
"""

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = Path(__file__).resolve().parent
LIBRARY = os.environ.get("MPI_BRIDGE_LIBRARY")


class BuildWithLibrary(build_py):
    """Puts what is not Python beside the package's modules.

    That is the library, without its debugging symbols, and the sources of the backend of
    torch.distributed, which `python3 -m mpi_bridge.torch_native build` compiles.
    """

    def run(self) -> None:
        """Build as usual, then copy."""
        super().run()
        self._copy_sources(Path(self.build_lib, "mpi_bridge", "torch_backend"))
        if LIBRARY:
            self._copy_library()

    def _copy_sources(self, target: Path) -> None:
        if not (HERE.parent / "torch" / "module.cpp").is_file():
            print(f"setup.py: without the backend in C++: {HERE.parent}/torch is not there")
            return
        for folder in ("torch", "include"):
            shutil.copytree(HERE.parent / folder, target, dirs_exist_ok=True)

    def _copy_library(self) -> None:
        target = Path(self.build_lib, "mpi_bridge", "libmpi_bridge.so.0")
        shutil.copyfile(Path(LIBRARY).resolve(strict=True), target)
        strip = shutil.which("strip")
        if strip:
            subprocess.run([strip, "--strip-debug", str(target)], check=True)


class WheelForEveryPython(bdist_wheel):
    """A wheel that the library binds to a platform, but not to a version of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags of Python, of its binary interface, and of the platform."""
        _, _, platform = super().get_tag()
        return "py3", "none", platform if LIBRARY else "any"


class DistributionWithLibrary(Distribution):
    """Has native code if it contains the library, so that its files are installed accordingly."""

    def has_ext_modules(self) -> bool:
        """Tell whether there is native code."""
        return bool(LIBRARY)


setup(
    distclass=DistributionWithLibrary,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": WheelForEveryPython},
)
