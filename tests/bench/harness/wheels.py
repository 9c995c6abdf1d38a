# SPDX-License-Identifier: GPL-2.0-or-later
"""The software that ours is compared with and that comes as Python wheels.

tests/bench/requirements.txt pins it. The extra of a line there names the folder that the wheel is
put into.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

from .cluster import BenchError

REQUIREMENTS = Path(__file__).resolve().parents[1] / "requirements.txt"
_LINE = re.compile(r'^(?P<pin>[\w-]+==[\w.]+) ; extra == "(?P<extra>\w+)"$', re.MULTILINE)


def pins() -> dict[str, list[str]]:
    """The wheels of each extra, such as {"mpich5": ["mpich==5.0.2"]}."""
    found: dict[str, list[str]] = {}
    for line in _LINE.finditer(REQUIREMENTS.read_text()):
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


def packages(extra: str) -> Path:
    """The folder with the Python packages of an extra."""
    major, minor = sys.version_info[:2]
    return prefix(extra) / f"lib/python{major}.{minor}/site-packages"


def run(argv: list[str], what: str) -> None:
    """Runs a command; the error says `what` and its last words."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise BenchError(f"{what}: {lines[-1].strip() if lines else 'no message'}")


def install(extra: str) -> None:
    """Puts the wheels of an extra into its folder, without what they depend on."""
    folder = prefix(extra)
    if (folder / "complete").exists():
        return
    python = home() / "bin/python"
    if not python.exists():
        run([sys.executable, "-m", "venv", str(home())], "no virtual environment")
    wheels = pins()[extra]
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(
        [*pip, "--no-deps", "--ignore-installed", "--prefix", str(folder), *wheels],
        f"{', '.join(wheels)} cannot be installed",
    )
    (folder / "complete").touch()
