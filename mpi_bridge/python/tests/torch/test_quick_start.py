# SPDX-License-Identifier: Apache-2.0
"""docs/start-torchrun.md, command by command: the page is the test.

Its blocks are as quickstarts.bats describes them, but for LIBRARY, which stands for the library.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import launch

SOURCE = launch.RANKS.parents[1]
PAGE = SOURCE.parents[1] / "docs" / "start-torchrun.md"
LIBRARY = os.environ.get("MPI_BRIDGE_LIBRARY", "")


def steps():
    """Yield ("file", name, text) and ("command", what is typed, what is shown), in their order."""
    blocks = re.finditer(
        r"`([^`\n ]+)`:\n\n```\w+\n(.*?)```|```console\n(.*?)```", PAGE.read_text(), re.S
    )
    for block in blocks:
        name, text, console = block.groups()
        if name:
            yield "file", name, text
            continue
        for part in re.split(r"^\$ ", console, flags=re.M)[1:]:
            command, _, shown = part.partition("\n")
            yield "command", command, shown.splitlines()


def environment(folder):
    """Return that of a user with this Python on PATH, who installs into a folder of the test."""
    packages = folder / "packages"
    return {
        **{
            name: os.environ[name]
            for name in ("HOME", "LANG", "XDG_CACHE_HOME")
            if name in os.environ
        },
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(packages),
        "OMP_NUM_THREADS": "1",
        # The indexes of packages are not reached, and nothing is put beside the packages of others.
        **{"PIP_TARGET": str(packages), "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"},
    }


def matches(line, shown):
    return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), line) is not None


def test_the_page_does_what_it_says(tmp_path):
    tree = tmp_path / "mpi_bridge" / "python"
    shutil.copytree(SOURCE, tree, ignore=shutil.ignore_patterns("tests", "build", "__pycache__"))
    for beside in ("torch", "include"):
        shutil.copytree(SOURCE.parent / beside, tree.parent / beside)
    variables = environment(tmp_path)
    exported = []
    commands = 0
    for kind, what, content in steps():
        if kind == "file":
            (tmp_path / what).write_text(content)
            continue
        command = re.sub("=LIBRARY$", f"={LIBRARY}", what)
        result = subprocess.run(
            ["bash", "-c", "; ".join([*exported, command])],
            cwd=tmp_path,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        assert result.returncode == 0, f"{command}\n{result.stdout}"
        if command.startswith(("export ", "unset ")):
            exported.append(command)
        printed = result.stdout.splitlines()
        for shown in content:
            if shown in ("", "…"):
                continue
            at = next((i for i, line in enumerate(printed) if matches(line, shown)), None)
            assert at is not None, f"{command}\ndoes not print {shown!r}\n{result.stdout}"
            del printed[at]
        assert "…" in content or not [line for line in printed if line], (
            f"{command}\n{result.stdout}"
        )
        commands += 1
    assert commands == 8
