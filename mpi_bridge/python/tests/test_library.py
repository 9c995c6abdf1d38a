# SPDX-License-Identifier: Apache-2.0
"""Where the native library is looked for; needs none."""

import pytest

from mpi_bridge import LibraryNotFoundError, library


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return str(path)


@pytest.fixture(autouse=True)
def _without_the_variable(monkeypatch):
    monkeypatch.delenv(library.ENVIRONMENT_VARIABLE, raising=False)


def test_the_variable_is_the_only_candidate_when_set(monkeypatch, tmp_path):
    touch(tmp_path / "libmpi_bridge.so")
    monkeypatch.setenv(library.ENVIRONMENT_VARIABLE, "/some/where.so")
    assert list(library.candidates(tmp_path)) == ["/some/where.so"]


def test_beside_the_package_comes_first_and_the_loader_last(monkeypatch, tmp_path):
    package = tmp_path / "lib" / "batchai" / "python" / "mpi_bridge"
    beside = touch(package / "libmpi_bridge.so")
    installed = touch(tmp_path / "lib" / "libmpi_bridge.so")
    found = list(library.candidates(package))
    assert found[:2] == [beside, installed]
    assert found[-2:] == ["libmpi_bridge.so", "libmpi_bridge.so.0"]


def test_an_installed_tree_is_found_under_its_multiarch_directory(monkeypatch, tmp_path):
    monkeypatch.setattr(library.sysconfig, "get_config_var", lambda _name: "x86_64-linux-gnu")
    package = tmp_path / "lib" / "batchai" / "python" / "mpi_bridge"
    installed = touch(tmp_path / "lib" / "x86_64-linux-gnu" / "libmpi_bridge.so.0")
    assert next(iter(library.candidates(package))) == installed


def test_the_error_names_what_was_tried_and_the_way_out(monkeypatch, tmp_path):
    broken = tmp_path / "libmpi_bridge.so"
    broken.write_text("no library")
    monkeypatch.setenv(library.ENVIRONMENT_VARIABLE, str(broken))
    with pytest.raises(LibraryNotFoundError) as caught:
        library.load(tmp_path)
    assert str(broken) in str(caught.value)
    assert library.ENVIRONMENT_VARIABLE in str(caught.value)
