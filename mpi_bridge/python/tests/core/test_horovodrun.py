# SPDX-License-Identifier: Apache-2.0
"""horovodrun: what it makes of its options, and the wheel that brings it."""

import os
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from horovod.runner import hosts, launch

SOURCE = Path(__file__).resolve().parents[2]


def parsed(*arguments):
    return launch.parser().parse_args(arguments)


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "horovod.runner", *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCE), **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_ranks_fill_the_hosts_in_their_order():
    assert hosts.place(hosts.parse_list("a:2,b:3"), 4) == ["a", "a", "b", "b"]
    assert hosts.place(hosts.parse_file(["# hosts", "a slots=1", "", "b slots = 2 # big"]), 3) == [
        "a",
        "b",
        "b",
    ]
    assert hosts.parse_list("a") == [hosts.Host("a", 1)]


@pytest.mark.parametrize("text", ["", "a:", "a:0", "a:x", ":2", "a:1,,b"])
def test_lists_of_hosts_that_make_no_sense_are_refused(text):
    with pytest.raises(ValueError, match="is not HOST"):
        hosts.parse_list(text)


def test_too_few_slots_are_refused():
    with pytest.raises(ValueError, match="5 ranks do not fit into 4 slots"):
        hosts.place(hosts.parse_list("a:2,b:2"), 5)


def test_options_become_arguments_of_srun_and_variables():
    options = parsed(
        "-np", "4", "--fusion-threshold-mb", "32", "--timeline-filename", "t", "--log-level",
        "INFO", "python", "train.py", "-np", "9", "--verbose",
    )  # fmt: skip
    assert launch.srun_arguments(options, has_places=False) == [
        "srun", "--mpi=pmix", "--ntasks=4", "--kill-on-bad-exit=1", "--", "python", "train.py",
        "-np", "9", "--verbose",
    ]  # fmt: skip
    assert launch.variables(options) == {
        "HOROVOD_FUSION_THRESHOLD": str(32 << 20),
        "HOROVOD_TIMELINE": "t",
        "HOROVOD_LOG_LEVEL": "INFO",
    }
    assert "--distribution=arbitrary" in launch.srun_arguments(options, has_places=True)


@pytest.mark.parametrize(("type_of_site", "expected"), [("pmi2", "pmi2"), ("none", "pmix")])
def test_slurm_may_be_asked_for_pmi2(monkeypatch, type_of_site, expected):
    monkeypatch.setenv("SLURM_MPI_TYPE", type_of_site)
    arguments = launch.srun_arguments(parsed("-np", "4", "python"), has_places=False)
    assert arguments[1] == f"--mpi={expected}"


@pytest.fixture
def srun(tmp_path):
    """Put a program called srun on the path that tells how it was called."""
    program = tmp_path / "bin" / "srun"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@"\ncat "${SLURM_HOSTFILE:-/dev/null}"\n'
        'echo "threshold $HOROVOD_FUSION_THRESHOLD"\nexit 3\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


def test_srun_gets_the_arguments_and_its_status_is_passed_on(srun, tmp_path):
    directory = tmp_path / "output"
    result = run(
        "-np", "3", "-H", "a:2,b:2", "--fusion-threshold-mb", "1", "--output-filename",
        str(directory), "--cycle-time-ms", "1", "python", "two words.py", SLURM_JOB_ID="1", **srun,
    )  # fmt: skip
    assert result.returncode == 3
    lines = result.stdout.splitlines()
    assert lines[:3] == ["--mpi=pmix", "--ntasks=3", "--kill-on-bad-exit=1"]
    assert lines[-6:] == ["python", "two words.py", "a", "a", "b", f"threshold {1 << 20}"]
    assert f"--output={directory}/rank.%t/stdout" in lines
    assert sorted(path.name for path in directory.iterdir()) == ["rank.0", "rank.1", "rank.2"]
    assert "--cycle-time-ms has no effect" in result.stderr


def test_outside_of_an_allocation_it_says_what_to_do(srun):
    environment = {name: value for name, value in os.environ.items() if name != "SLURM_JOB_ID"}
    result = subprocess.run(
        [sys.executable, "-m", "horovod.runner", "-np", "2", "true"],
        env={**environment, "PYTHONPATH": str(SOURCE), **srun},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 1
    assert "salloc" in result.stderr


def test_missing_arguments_are_a_usage_error():
    assert run("python", "train.py").returncode == 2
    assert run("-np", "2").returncode == 2


def test_help_has_an_example():
    assert "horovodrun -np 4" in run("--help").stdout


def test_check_build_lists_what_is_there():
    result = run("--check-build")
    assert result.returncode == 0, result.stdout
    assert "[X] mpi_bridge" in result.stdout
    assert "[ ] Gloo" in result.stdout
    result = run("--check-build", MPI_BRIDGE_LIBRARY="/nonexistent/libmpi_bridge.so")
    assert result.returncode == 1
    assert "/nonexistent/libmpi_bridge.so" in result.stdout


@pytest.mark.parametrize("carries", [True, False])
def test_the_wheel_is_for_every_python(carries, tmp_path):
    pytest.importorskip("setuptools", minversion="61")
    pytest.importorskip("wheel")
    library = os.environ.get("MPI_BRIDGE_LIBRARY")
    if carries and not library:
        pytest.skip("needs MPI_BRIDGE_LIBRARY")
    # setuptools writes into its sources.
    tree = tmp_path / "source" / "python"
    shutil.copytree(SOURCE, tree, ignore=shutil.ignore_patterns("tests", "build", "*.egg-info"))
    for beside in ("torch", "include"):
        shutil.copytree(SOURCE.parent / beside, tree.parent / beside)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [*pip, "-w", str(tmp_path), str(tree)],
        env={**os.environ, "MPI_BRIDGE_LIBRARY": library if carries else ""},
        check=True,
        timeout=600,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert ("mpi_bridge/libmpi_bridge.so.0" in names) == carries
    assert {"mpi_bridge/engine.py", "horovod/torch/elastic/__init__.py"} <= set(names)
    assert {
        "mpi_bridge/torch_backend/work/work.cpp",
        "mpi_bridge/torch_backend/mpi_bridge.h",
    } <= set(names)
    assert f"-py3-none-{'linux' if carries else 'any'}" in wheel.name
