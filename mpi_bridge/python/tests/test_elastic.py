# SPDX-License-Identifier: Apache-2.0
"""Elastic training: a later launch, of another size, goes on from what an earlier one committed.

MPI_BRIDGE_TEST_LAUNCHER, if set, starts the ranks (see test_ranks.py); needs libmpi_bridge.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "ranks" / "elastic.py"
LAUNCHER = shlex.split(os.environ.get("MPI_BRIDGE_TEST_LAUNCHER", ""))


def run(half, directory, launcher, **environment):
    result = subprocess.run(
        [*launcher, sys.executable, str(PROGRAM), half],
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "BATCHAI_ELASTIC_DIRECTORY": str(directory),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result


def test_a_later_launch_goes_on_from_the_commit(tmp_path):
    pytest.importorskip("torch")
    before = run("first", tmp_path, LAUNCHER).stdout
    ranks = before.split("passed on ")[1].split()[0]
    after = run("second", tmp_path, [], RANKS_BEFORE=ranks)
    assert "passed on 1 ranks" in after.stdout
    assert "elastic: goes on from commit" in after.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["committed.pickle"]
    assert (tmp_path / "committed.pickle").stat().st_mode & 0o077 == 0


def test_a_file_of_another_kind_is_refused(tmp_path):
    pytest.importorskip("torch")
    import pickle

    from horovod.common.elastic import ObjectState
    from horovod.common.exceptions import HorovodInternalError

    (tmp_path / "committed.pickle").write_bytes(pickle.dumps([1, 2]))
    state = ObjectState(lambda value: value, lambda: 0, epoch=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BATCHAI_ELASTIC_DIRECTORY", str(tmp_path))
        with pytest.raises(HorovodInternalError, match="remove it to start afresh"):
            state.load()
