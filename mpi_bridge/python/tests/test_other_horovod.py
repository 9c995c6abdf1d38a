# SPDX-License-Identifier: Apache-2.0
"""What a program of an image gets that brings a horovod of its own."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parents[1]

PROGRAM = """
import horovod
import horovod.torch as hvd
print("of", horovod.__file__, horovod.__version__, hvd.__name__, hvd.WHOSE)
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """The node's packages as a container has them."""
    packages = tmp_path / "batchai/lib/batchai/python"
    packages.parent.mkdir(parents=True)
    packages.symlink_to(PACKAGES)
    (tmp_path / "batchai/manifest.json").write_text("{}")
    return packages


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The packages of an image that has a horovod."""
    package = tmp_path / "site-packages/horovod"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "0.21.3"\n')
    (package / "torch.py").write_text('WHOSE = "the image"\n')
    return package.parent


def run(program: str, *path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if "RANK" not in name}
    environment.update(PYTHONPATH=os.pathsep.join(map(str, path)), **variables)
    argv = [sys.executable, "-c", program]
    # Python looks for packages in the current directory first.
    return subprocess.run(
        argv, env=environment, cwd="/", capture_output=True, text=True, check=False
    )


def test_the_image_keeps_its_own_and_is_told(bundle: Path, image: Path) -> None:
    done = run(PROGRAM, bundle, image)
    assert done.returncode == 0, done.stderr
    own = f"{image}/horovod/__init__.py"
    assert done.stdout == f"of {own} 0.21.3 horovod.torch the image\n"
    assert f"the image's own horovod is used, {own}; BATCHAI_INJECT=1" in done.stderr
    assert run(PROGRAM, bundle, image, RANK="1").stderr == ""


def test_the_images_own_runs_with_a_python_that_is_too_old_for_the_nodes(
    bundle: Path, image: Path
) -> None:
    older = "import sys; sys.version_info = (3, 8, 18, 'final', 0)"
    done = run(f"{older}\n{PROGRAM}", bundle, image)
    assert done.returncode == 0, done.stderr
    assert "horovod.torch the image" in done.stdout
    refused = run(f"{older}\nimport horovod", bundle, image, BATCHAI_INJECT="1")
    assert "mpi_bridge needs Python 3.9 or newer" in refused.stderr


def test_a_job_can_ask_for_the_nodes(bundle: Path, image: Path) -> None:
    done = run("import horovod; print(horovod.__version__)", bundle, image, BATCHAI_INJECT="1")
    assert "mpibridge" in done.stdout
    assert done.stderr == ""


def test_without_another_the_nodes_is_used(bundle: Path, tmp_path: Path) -> None:
    done = run("import horovod; print(horovod.__version__)", bundle, tmp_path)
    assert "mpibridge" in done.stdout
    assert done.stderr == ""


def test_one_that_goes_with_an_mpi_bridge_is_no_other(bundle: Path, image: Path) -> None:
    (image / "mpi_bridge").mkdir()
    done = run("import horovod; print(horovod.__version__)", bundle, image)
    assert "mpibridge" in done.stdout


def test_an_installation_that_is_not_in_a_container_is_used(image: Path) -> None:
    done = run("import horovod; print(horovod.__version__)", PACKAGES, image)
    assert "mpibridge" in done.stdout


def test_a_fault_of_the_images_own_is_the_users_to_see(bundle: Path, image: Path) -> None:
    (image / "horovod/torch.py").write_text("import libhorovod_of_another_torch\n")
    done = run(PROGRAM, bundle, image)
    assert done.returncode != 0
    assert "No module named 'libhorovod_of_another_torch'" in done.stderr


@pytest.mark.parametrize("name", ["__init__.py", "_other.py"])
def test_an_older_python_can_read_what_is_imported_first(name: str) -> None:
    ast.parse((PACKAGES / "horovod" / name).read_text(), feature_version=(3, 6))
