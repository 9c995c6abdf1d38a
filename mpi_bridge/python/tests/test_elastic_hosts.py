# SPDX-License-Identifier: Apache-2.0
"""Elastic training when the hosts of the job change: what is announced, and how the ranks end.

MPI_BRIDGE_TEST_LAUNCHER, if set, starts the ranks (see test_ranks.py); needs libmpi_bridge.
"""

import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "ranks"
LAUNCHER = shlex.split(os.environ.get("MPI_BRIDGE_TEST_LAUNCHER", ""))


def run(directory, *words, program="elastic_hosts.py", **environment):
    return subprocess.run(
        [*LAUNCHER, sys.executable, str(PROGRAMS / program), *words],
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


def said_by(result):
    return result.stdout + result.stderr


@pytest.mark.parametrize(
    ("way", "change"), [("commit", None), ("commit", "mixed"), ("check", None), ("check", "added")]
)
def test_all_ranks_end_and_the_next_start_goes_on(tmp_path, way, change):
    pytest.importorskip("torch")
    told = {} if change is None else {"CHANGE": change}
    ended = run(tmp_path, way, "2", BATCHAI_ELASTIC_START="1", **told)
    assert ended.returncode == 75, said_by(ended)
    assert "ended after batch 3" in ended.stdout, said_by(ended)
    commit = 3 if way == "commit" else 1
    assert f"the ranks end after commit {commit}" in ended.stderr, said_by(ended)
    left = json.loads((tmp_path / "left.json").read_text())
    assert left == {"schema": "batchai-ranks-left/v1", "start": "1"}
    # The announcement is still there, but it was for the start before.
    after = run(tmp_path, way, BATCHAI_ELASTIC_START="1-1", RESETS="1")
    assert after.returncode == 0, said_by(after)
    assert f"goes on from commit {commit}" in after.stderr, said_by(after)


def test_the_callbacks_of_keras_end_the_ranks(tmp_path):
    if importlib.util.find_spec("keras") is None:
        pytest.skip("there is no Keras")
    program = {"program": "keras_elastic_hosts.py", "TF_CPP_MIN_LOG_LEVEL": "3"}
    ended = run(tmp_path, BATCHAI_ELASTIC_START="1", **program)
    assert ended.returncode == 75, said_by(ended)
    assert "ended after batch 2 of epoch 0" in ended.stdout, said_by(ended)
    assert "the ranks end after commit 3" in ended.stderr, said_by(ended)
    after = run(tmp_path, BATCHAI_ELASTIC_START="1-1", **program)
    assert after.returncode == 0, said_by(after)
    assert "goes on from commit 3" in after.stderr, said_by(after)


def test_an_update_is_told_once(tmp_path):
    pytest.importorskip("torch")
    result = run(tmp_path, "catch", "1", BATCHAI_ELASTIC_START="1")
    assert result.returncode == 0, said_by(result)
    assert not (tmp_path / "left.json").exists()


def test_nothing_is_read_in_a_step_of_somebody_else(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "hosts.json").mkdir()
    environment = {"BATCHAI_ELASTIC_START": ""}
    result = run(tmp_path, "commit", **environment)
    assert result.returncode == 0, said_by(result)
    assert "hosts.json" not in said_by(result)


def announcement(directory, text):
    from horovod.common.host_updates import Announcement

    path = directory / "hosts.json"
    if text is not None:
        path.write_text(text)
    return Announcement(directory, "3-1")


def update(**changes):
    return json.dumps({"schema": "batchai-hosts-update/v1", "start": "3-1", **changes})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, 0),
        (update(change="removed"), 1),
        (update(change="added"), 2),
        (update(change="mixed"), 3),
        (update(change="removed", start="3"), 0),
    ],
)
def test_only_what_is_for_this_start_counts(tmp_path, text, found):
    assert int(announcement(tmp_path, text).look()) == found


@pytest.mark.parametrize("text", ["", "[1]", update(change="?"), update().replace("v1", "v2")])
def test_what_cannot_be_read_is_told_and_does_not_end_the_training(tmp_path, text, capsys):
    assert int(announcement(tmp_path, text).look()) == 0
    assert f"elastic: cannot read {tmp_path}/hosts.json: " in capsys.readouterr().err


def test_a_link_is_not_followed(tmp_path, capsys):
    (tmp_path / "elsewhere").write_text(update(change="removed"))
    (tmp_path / "hosts.json").symlink_to(tmp_path / "elsewhere")
    assert int(announcement(tmp_path, None).look()) == 0
    assert "cannot read" in capsys.readouterr().err


def test_the_file_is_looked_at_once_a_second(tmp_path, monkeypatch):
    from horovod.common import host_updates

    now = [100.0]
    monkeypatch.setattr(host_updates.time, "monotonic", lambda: now[0])
    seen = announcement(tmp_path, None)
    assert int(seen.look()) == 0
    (tmp_path / "hosts.json").write_text(update(change="added"))
    now[0] += 0.9
    assert int(seen.look()) == 0
    now[0] += 0.2
    assert int(seen.look()) == 2
