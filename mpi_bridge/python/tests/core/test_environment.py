# SPDX-License-Identifier: Apache-2.0
"""Horovod's environment variables; needs no native library."""

import re
from pathlib import Path

import pytest

from horovod._keras.fusion_threshold import fusion_threshold
from horovod.common import environment

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "horovod.md"


def known():
    return {
        *environment.READ_BY_THE_LIBRARY,
        *environment.HANDED_ON,
        *environment.WITHOUT_MEANING,
    }


def test_values_are_handed_on_to_the_library():
    variables = {"HOROVOD_LOG_LEVEL": "TRACE", "HOROVOD_GLOO_TIMEOUT_SECONDS": "7"}
    environment.apply(variables)
    assert variables["MPI_BRIDGE_LOG"] == "debug"
    assert variables["MPI_BRIDGE_TIMEOUT_SECONDS"] == "7"


def test_the_librarys_own_variable_wins():
    variables = {"HOROVOD_LOG_LEVEL": "debug", "MPI_BRIDGE_LOG": "error"}
    environment.apply(variables)
    assert variables["MPI_BRIDGE_LOG"] == "error"


def test_a_level_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="HOROVOD_LOG_LEVEL='loud'"):
        environment.apply({"HOROVOD_LOG_LEVEL": "loud"})


@pytest.mark.parametrize(
    ("text", "threshold"),
    [("", 128 << 20), ("0", 0), ("64", 64), ("3K", 3 << 10), ("25M", 25 << 20), ("1G", 1 << 30)],
)
def test_the_fusion_threshold_is_read_as_the_library_reads_it(monkeypatch, text, threshold):
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", text)
    assert fusion_threshold() == threshold


@pytest.mark.parametrize("text", ["-1", "1e6", "25MB", "M", "25m", "\u0663"])
def test_a_fusion_threshold_that_is_no_number_of_bytes_is_refused(monkeypatch, text):
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", text)
    with pytest.raises(ValueError, match="such as 25M"):
        fusion_threshold()


def test_what_means_nothing_is_said_once_by_rank_0(monkeypatch, capsys):
    monkeypatch.setattr(environment, "_said", False)
    variables = {"HOROVOD_CYCLE_TIME": "5", "MPI_BRIDGE_LOG": "info"}
    environment.say_what_has_no_meaning(1, variables)
    assert capsys.readouterr().err == ""
    environment.say_what_has_no_meaning(0, variables)
    environment.say_what_has_no_meaning(0, variables)
    assert capsys.readouterr().err.count("HOROVOD_CYCLE_TIME has no effect") == 1


def test_nothing_is_said_at_the_usual_level(monkeypatch, capsys):
    monkeypatch.setattr(environment, "_said", False)
    environment.say_what_has_no_meaning(0, {"HOROVOD_CYCLE_TIME": "5"})
    assert capsys.readouterr().err == ""


def test_the_document_has_exactly_the_variables_that_are_known():
    documented = set(re.findall(r"^\| `(HOROVOD_\w+)`", DOCUMENT.read_text(), re.MULTILINE))
    assert documented == known()
