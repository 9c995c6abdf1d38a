# SPDX-License-Identifier: Apache-2.0
"""torch finds the backend by itself where the package is installed; needs no ranks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")


def installed(directory, function):
    """Make what pip leaves behind: metadata with the entry point."""
    metadata = directory / "mpi_bridge-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mpi-bridge\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text(f"[torch.backends]\nmpi_bridge = {function}\n")
    return os.pathsep.join((str(directory), str(Path(__file__).parents[1])))


def python(code, path):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_the_backend_is_there_after_import_torch(tmp_path):
    project = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    function = "mpi_bridge.torch_autoload:autoload"
    assert f'mpi_bridge = "{function}"' in project
    path = installed(tmp_path, function)
    code = "import torch; print(torch.distributed.Backend.MPI_BRIDGE, 'mpi_bridge.engine' in "
    result = python(code + "__import__('sys').modules)", path)
    assert result.stdout.split() == ["mpi_bridge", "True"], result.stderr


def test_a_backend_that_cannot_be_registered_does_not_break_torch(tmp_path):
    path = installed(tmp_path, "mpi_bridge.torch_autoload:autoload")
    (tmp_path / "sitecustomize.py").write_text(
        "import sys; sys.modules['mpi_bridge.torch_distributed'] = None\n"
    )
    result = python("import torch; print('torch is there')", path)
    assert result.stdout == "torch is there\n"
    assert "is not registered" in result.stderr
