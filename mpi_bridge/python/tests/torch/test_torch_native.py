# SPDX-License-Identifier: Apache-2.0
"""How the backend of torch.distributed in C++ is compiled, found and refused."""

import os
import shutil
import subprocess
import sys

import launch
import pytest

pytest.importorskip("torch")

from mpi_bridge import torch_native


def run(*arguments, **environment):
    paths = os.pathsep.join([str(launch.RANKS.parents[1]), str(launch.RANKS)])
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def command(*arguments, **environment):
    return run("-m", "mpi_bridge.torch_native", *arguments, **environment)


@pytest.fixture
def cache(tmp_path):
    """A cache with what the session has compiled."""
    folder = tmp_path / "mpi_bridge"
    folder.mkdir(mode=0o700)
    shutil.copy(torch_native.build(), folder)
    return folder


def test_what_was_compiled_is_shown(cache):
    result = command("show", XDG_CACHE_HOME=str(cache.parent))
    assert (result.returncode, result.stdout.strip()) == (0, str(next(cache.iterdir())))


def test_it_is_said_that_nothing_was_compiled(tmp_path):
    result = command("show", XDG_CACHE_HOME=str(tmp_path))
    assert result.returncode == 1
    assert "not built for torch" in result.stdout


def test_a_missing_compiler_is_said_and_leaves_nothing(tmp_path):
    result = command("build", XDG_CACHE_HOME=str(tmp_path), CXX="no-such-compiler")
    assert result.returncode == 1
    assert "there is no C++ compiler (looked for no-such-compiler)" in result.stderr
    assert list(tmp_path.rglob("*.so")) == []


def test_what_the_compiler_does_not_like_is_shown(tmp_path):
    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\necho 'a.cpp:1: error: no' >&2\nexit 1\n")
    compiler.chmod(0o755)
    result = command("build", XDG_CACHE_HOME=str(tmp_path / "cache"), CXX=str(compiler))
    assert result.returncode == 1
    assert "the compiler fails with this torch:\na.cpp:1: error: no" in result.stderr
    assert list((tmp_path / "cache" / "mpi_bridge").iterdir()) == []


@pytest.mark.parametrize("part", ["folder", "file"])
def test_what_others_can_write_to_is_not_loaded(cache, part):
    (cache if part == "folder" else next(cache.iterdir())).chmod(0o777)
    result = command("show", XDG_CACHE_HOME=str(cache.parent))
    assert result.returncode == 1
    assert "others can write to" in result.stderr
    result = alone(cache.parent, XDG_CACHE_HOME=str(cache.parent))
    assert "runs on the backend in Python" in result.stderr
    assert "others can write to" in result.stderr


def alone(folder, **environment):
    """Run one rank, with whichever backend there is; it meets itself in the folder."""
    arguments = (launch.RANKS / "torch_by_file.py", folder / "meeting", 0, 1)
    return run(*arguments, **{"MPI_BRIDGE_TORCH_BACKEND": "", **environment})


def test_without_it_the_one_in_python_runs_and_says_so(tmp_path):
    result = alone(tmp_path, XDG_CACHE_HOME=str(tmp_path))
    assert "passed on rank 0" in result.stdout, result.stderr
    assert result.stderr.count("runs on the backend in Python") == 1


def test_it_is_taken_where_it_is_found(cache):
    result = alone(cache.parent, XDG_CACHE_HOME=str(cache.parent))
    assert "passed on rank 0" in result.stdout, result.stderr
    assert "backend in Python" not in result.stderr


# The exit waits for its threads, which must not outlive Python; one that has nothing to do, of a
# group that nobody has ended, must not wait for more.
def test_no_thread_outlives_the_session(tmp_path):
    result = run(launch.RANKS / "torch_exit.py", tmp_path / "meeting")
    assert (result.returncode, result.stdout) == (0, "all threads have ended\n"), result.stderr


def test_who_asks_for_it_gets_no_other(tmp_path):
    result = alone(tmp_path, XDG_CACHE_HOME=str(tmp_path), MPI_BRIDGE_TORCH_BACKEND="native")
    assert result.returncode != 0
    assert "python3 -m mpi_bridge.torch_native build" in result.stderr


def test_another_choice_is_refused(tmp_path):
    result = alone(tmp_path, MPI_BRIDGE_TORCH_BACKEND="c++")
    assert result.returncode != 0
    assert "MPI_BRIDGE_TORCH_BACKEND is 'c++'; it can be 'native' or 'python'" in result.stderr
