# SPDX-License-Identifier: Apache-2.0
"""Elastic training whose ranks outlive each other in their processes.

Breaks when a rank that is left hangs, starts elsewhere than at the last commit, or goes on although
the launcher has refused it.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import launch
import pytest

from horovod.common import losses

pytest.importorskip("torch")

PROGRAMS = Path(__file__).resolve().parents[1] / "ranks"
RANKS = 4
# Without those of a launcher that the tests themselves run under.
VARIABLES = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("PMIX_", "PMI_", "SLURM_", "OMPI_", "BATCHAI_"))
}


class Ranks:
    """Four processes, and what they have printed and ended with."""

    def __init__(self, *losses, program="elastic_survivors.py", **environment):
        self.port_holder = launch.hold_port()
        common = {
            **VARIABLES,
            "OMP_NUM_THREADS": "1",
            "WORLD_SIZE": str(RANKS),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.port_holder.getsockname()[1]),
            "MPI_BRIDGE_TIMEOUT_SECONDS": "60",
            "BATCHAI_ELASTIC_KEEP_PROCESSES": "1",
            **environment,
        }
        self.processes = [
            subprocess.Popen(
                [sys.executable, str(PROGRAMS / program), *losses],
                env={**common, "RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(RANKS)
        ]

    def end(self):
        texts = [rank.communicate(timeout=600) for rank in self.processes]
        self.port_holder.close()
        self.text = "".join(out + error for out, error in texts)
        self.codes = [rank.returncode for rank in self.processes]
        return self

    def passed(self):
        """Return the first numbers of the ranks that say so, if it is the process of then."""
        found = re.findall(r"passed on rank (\d), \d ranks, process (\d+)", self.text)
        assert all(int(process) == self.processes[int(rank)].pid for rank, process in found)
        return sorted(int(rank) for rank, _ in found)


@pytest.mark.parametrize(
    ("losses", "codes"),
    [
        (["1:3:kill"], [0, -9, 0, 0]),
        (["0:3:kill"], [-9, 0, 0, 0]),
        (["3:2:raise"], [0, 0, 0, 1]),
        (["2:3:kill", "0:6:kill"], [-9, 0, -9, 0]),
        (["1:3:kill", "2:3:kill"], [0, -9, -9, 0]),
        (["1:3:kill", "0:3:reset"], [-9, -9, 0, 0]),
        (["0:2:kill", "1:4:kill", "2:6:raise"], [-9, -9, 1, 0]),
        (["0:3:disagree", "1:6:kill"], [0, -9, 0, 0]),
    ],
)
def test_the_others_go_on_in_their_processes(losses, codes, tmp_path):
    ranks = Ranks(*losses, BATCHAI_ELASTIC_DIRECTORY=str(tmp_path)).end()
    assert ranks.codes == codes, ranks.text
    assert ranks.passed() == [rank for rank, code in enumerate(codes) if code == 0], ranks.text
    print(re.findall("elastic: .* go on .*", ranks.text))


def test_they_need_no_directory():
    """So the items that a lost rank has processed are known from the others' memory."""
    ranks = Ranks("1:3:kill", "0:6:kill").end()
    assert ranks.codes == [-9, -9, 0, 0], ranks.text
    assert ranks.passed() == [2, 3], ranks.text


def test_files_that_cannot_be_written_end_nobody(tmp_path, capsys):
    (tmp_path / "file").touch()
    launcher = losses._Launcher(tmp_path / "file" / "directory", "1")
    launcher.say_that_ranks_stay()
    launcher.say_that_ranks_do_not_stay()
    assert capsys.readouterr().err.count("elastic: stay.json") == 2


def test_ranks_of_keras_go_on_in_their_processes():
    if importlib.util.find_spec("keras") is None:
        pytest.skip("there is no Keras")
    ranks = Ranks(program="keras_elastic_survivors.py", TF_CPP_MIN_LOG_LEVEL="3").end()
    assert ranks.codes == [0, -9, 0, 0], ranks.text
    assert ranks.passed() == [0, 2, 3], ranks.text


def test_without_the_wish_all_end():
    ranks = Ranks("1:3:kill", BATCHAI_ELASTIC_KEEP_PROCESSES="0").end()
    assert ranks.codes[1] == -9
    assert 0 not in ranks.codes, ranks.text
    assert "PeerLostError" in ranks.text


def play_launcher(directory, refusal, questions, stop):
    """Answer what ranks ask of `batchai run`."""
    answered = ""
    while not stop.is_set():
        time.sleep(0.01)
        try:
            question = json.loads((directory / "loss.json").read_text())
        except FileNotFoundError:
            continue
        if question["number"] == answered:
            continue
        answered = question["number"]
        questions.append(question)
        answer = {"schema": "batchai-ranks-lost-answer/v1", "number": answered, "refusal": refusal}
        (directory / "answer.tmp").write_text(json.dumps(answer))
        (directory / "answer.tmp").rename(directory / "loss-answer.json")


@pytest.mark.parametrize("refusal", ["", "too few nodes are left"])
def test_the_launcher_decides(tmp_path, refusal):
    questions, stop = [], threading.Event()
    launcher = threading.Thread(target=play_launcher, args=(tmp_path, refusal, questions, stop))
    launcher.start()
    try:
        ranks = Ranks(
            "2:3:kill",
            "0:5:kill",
            BATCHAI_ELASTIC_DIRECTORY=str(tmp_path),
            BATCHAI_ELASTIC_START="1",
        ).end()
    finally:
        stop.set()
        launcher.join()
    assert {question["start"] for question in questions} == {"1"}
    asked = [(question["lost"], question["here"]) for question in questions]
    if refusal:
        assert asked == [([2], [0, 1, 3])]
        assert ranks.codes == [1, 1, -9, 1], ranks.text
        assert f"the ranks do not go on: {refusal}" in ranks.text
        assert json.loads((tmp_path / "stay.json").read_text())["start"] == "1"
    else:
        # The ranks keep the numbers that the launcher knows.
        assert asked == [([2], [0, 1, 3]), ([0], [1, 3])]
        assert ranks.passed() == [1, 3], ranks.text
        assert sorted(path.name for path in tmp_path.glob("ended.*")) == ["ended.1.1", "ended.1.3"]
        assert not (tmp_path / "stay.json").exists()
        assert "too early" not in ranks.text
