# SPDX-License-Identifier: Apache-2.0
"""What a Python that is too old is told; none is needed, because its version number is replaced."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parents[1]
FIRST = ["mpi_bridge/__init__.py", "horovod/__init__.py"]


@pytest.mark.parametrize(
    "module",
    ["mpi_bridge", "mpi_bridge.torch_autoload", "horovod", "horovod.torch", "horovod.runner"],
)
@pytest.mark.parametrize("version", [(3, 8, 18), (3, 6, 9)])
def test_an_older_python_is_told_what_to_do(module, version):
    script = f"import sys; sys.version_info = {(*version, 'final', 0)}; import {module}"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False
    )
    assert result.returncode == 1
    shown = ".".join(map(str, version))
    last = result.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: mpi_bridge needs Python 3.9 or newer; this is {shown} ")
    assert "BATCHAI_INJECT=0" in last


# They are imported before everything else, so an older Python must come to the line that says it.
@pytest.mark.parametrize("path", FIRST)
def test_the_first_files_can_be_parsed_by_older_ones(path):
    tree = ast.parse((PACKAGES / path).read_text(), feature_version=(3, 6))
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert not any(getattr(node, "module", "") == "__future__" for node in imports)
