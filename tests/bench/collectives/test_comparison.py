# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of measurements; the times here are made up."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

from comparison import gate, targets  # noqa: E402
from comparison.cases import CASES  # noqa: E402
from comparison.results import Run, Time, Turn  # noqa: E402
from harness import machine  # noqa: E402
from harness.cluster import BenchError  # noqa: E402

_LOAD = 0.5


def _machine(**changed: object) -> dict[str, object]:
    usual = {
        "date": "2026-01-01",
        "processor": "one",
        "processors": 2,
        "kernel": "6.1",
        "load": _LOAD,
        "commit": "abc",
        "versions": {"mpich": "4"},
    }
    return usual | changed


def _run(case: str = "node2", size: int = 8, changed: dict | None = None, **times: float) -> Run:
    """Three rounds of allreduce in which each library takes the same time."""
    run = Run(_machine(**(changed or {})), "")
    for number in (1, 2, 3):
        measured = {key: Time(value, value, value, 10) for key, value in times.items()}
        run.turns.append(Turn(case, "allreduce", size, number, (50.0, 50.0), _LOAD, measured))
    return run


def test_the_gate_compares_ratios_and_not_times() -> None:
    before = _run(ours=1.0, mpich=2.0)
    assert not gate.slower(_run(ours=10.0, mpich=20.0), before)
    assert not gate.slower(_run(ours=1.1, mpich=2.0), before)
    (row,) = gate.slower(_run(ours=1.3, mpich=2.0), before)
    assert row.slower == pytest.approx(1.3)
    assert "allreduce of 8 B, mpi_bridge: 0.65 × the best peer's time, 0.50 × before" in row.text()


def test_the_gate_knows_only_peers_that_both_runs_have() -> None:
    before = _run(ours=1.0, mpich=2.0)
    # A better peer that is new is no loss of ours.
    assert not gate.slower(_run(ours=1.0, mpich=2.0, intel_mpi=0.5), before)
    assert gate.rows(_run(ours=1.0, intel_mpi=0.5), before) == []


def test_the_gate_compares_only_runs_of_one_kind_of_processor() -> None:
    before = _run(ours=1.0, mpich=2.0)
    assert gate.why_not_comparable(_run(ours=1.0, changed={"kernel": "6.2"}), before) == ""
    other = _run(ours=1.0, mpich=2.0, changed={"processor": "another"})
    assert "on 2 × one, this one on 2 × another" in gate.why_not_comparable(other, before)


def test_a_processor_is_told_by_its_model() -> None:
    cpuinfo = "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n"
    assert machine.processor_of(cpuinfo * 2) == "AMD EPYC (family 25, model 17)"
    assert machine.processor_of("model name\t: ARMv8\n") == "ARMv8"
    assert machine.processor_of("BogoMIPS\t: 50.00\n") == ""


def test_what_failed_does_not_pass_the_gate() -> None:
    run = _run(ours=1.0, mpich=2.0)
    assert gate.failed(run) == []
    run.turns[0].errors = {"mpich": "exit code 1", "ours": "no answer in time"}
    assert gate.failed(run) == ["failed: allreduce of 8 B, node2, mpi_bridge: no answer in time"]


def test_runs_of_different_cases_are_joined() -> None:
    run = _run(ours=1.0, mpich=2.0, changed={"load": 0.2})
    run.add(_run("hosts4", ours=3.0, mpich=4.0, changed={"commit": "def", "load": 0.9}))
    assert [case.key for case in run.cases()] == ["node2", "hosts4"]
    assert "commit abc and def" in run.sentence
    assert run.machine["load"] == 0.9
    # A case that has been measured anew counts as a whole.
    run.add(_run(ours=100.0, mpich=1.0))
    assert not gate.slower(run, _run(ours=1.0, mpich=2.0))


def test_runs_of_different_machines_are_not_joined() -> None:
    with pytest.raises(BenchError, match="different machines"):
        _run(ours=1.0).add(_run("hosts4", ours=1.0, changed={"processor": "another"}))


def test_a_busy_machine_is_not_published() -> None:
    machine.must_be_idle(1.0)
    with pytest.raises(BenchError, match="load average at the start is 1.2"):
        machine.must_be_idle(1.2)


@pytest.mark.parametrize(
    ("shared", "verdict"), [(1.0, "1.00 × at 1 MiB | **missed**"), (0.3, "3.33 × at 1 MiB | met")]
)
def test_memory_of_mpib_alloc_has_a_goal(shared: float, verdict: str) -> None:
    table = targets.table(_run(size=1 << 20, ours=1.0, ours_shared=shared))
    assert f"| 3 × as fast as in ordinary memory | {verdict} |" in table


def test_each_case_that_has_a_goal_is_measured() -> None:
    assert {goal.case for goal in targets.GOALS} == {case.key for case in CASES}
