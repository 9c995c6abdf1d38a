#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs torch's own tests of torch.distributed, which come with torch, on mpi_bridge and on gloo.

A test that gloo passes must pass with mpi_bridge, unless differences.txt says why it cannot. Needs
mpirun of Open MPI, and the packages expecttest and hypothesis.

    run.py                        exit status 0: all pass, or are explained
    run.py --ranks 3 --only test_all_reduce_sum
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGES = HERE.parents[1]
SILENCE_SECONDS = 60  # after which the test that runs counts as one that hangs
SILENCE = "silence"
RESULT = re.compile(r"^RESULT (\d+) (\d+) (passed|skipped|failed) ?(.*)$")

Outcome = tuple[str, str]  # passed, skipped, failed or hangs, and the reason


def names_of_tests() -> list[str]:
    """Return the names of torch's tests."""
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os; os.environ.update(BACKEND='gloo', WORLD_SIZE='2', TEMP_DIR='/tmp');"
            "from torch.testing._internal.distributed import distributed_test as suite;"
            "print(*(n for n in dir(suite.DistributedTest._DistTestBase) if n[:5] == 'test_'))",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    return found.stdout.split()


def differences() -> dict[str, str]:
    """Return why some tests cannot pass, by their names."""
    found = {}
    for line in (HERE / "differences.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition(":")
            found[name] = reason.strip()
    return found


def _read(started: subprocess.Popen[str], lines: queue.SimpleQueue[str]) -> None:
    for line in started.stdout:
        lines.put(line)
    lines.put("")


def _next(lines: queue.SimpleQueue[str]) -> str:
    """Return the next line, nothing at the end, and SILENCE if there is none for long."""
    try:
        return lines.get(timeout=SILENCE_SECONDS)
    except queue.Empty:
        return SILENCE


def launch(backend: str, ranks: int, tests: dict[int, str], log: Path) -> dict[int, Outcome]:
    """Run tests until one fails or hangs; return the outcomes of those that have run."""
    folder = Path(tempfile.mkdtemp(prefix="torch-suite-"))
    command = [
        *shlex.split(f"mpirun --allow-run-as-root --oversubscribe -n {ranks}"),
        *(sys.executable, str(HERE / "rank.py"), backend, str(folder)),
        *(f"{number}:{name}" for number, name in tests.items()),
    ]
    paths = os.pathsep.join([str(PACKAGES), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    environment["MPI_BRIDGE_TIMEOUT_SECONDS"] = "50"
    told: dict[int, dict[int, Outcome]] = {}
    with open(log, "ab") as errors:
        started = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    is_silent = False
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(started, lines), daemon=True).start()
    with started:
        while line := _next(lines):
            if line is SILENCE:
                is_silent = True
                break
            if match := RESULT.match(line):
                number, rank, state, reason = match.groups()
                told.setdefault(int(number), {})[int(rank)] = (state, reason)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)
    outcomes = {}
    for number in tests:
        of_ranks = told.get(number, {})
        worst = [each for each in of_ranks.values() if each[0] == "failed"]
        if worst:
            outcomes[number] = worst[0]
        elif len(of_ranks) == ranks:
            skips = [each for each in of_ranks.values() if each[0] == "skipped"]
            outcomes[number] = skips[0] if skips else ("passed", "")
            continue
        else:
            state = "hangs" if is_silent else "failed"
            outcomes[number] = (state, f"{len(of_ranks)} of {ranks} ranks came to its end")
        break
    return outcomes


def run(backend: str, ranks: int, names: list[str], log: Path) -> dict[str, Outcome]:
    """Run all tests; return the outcomes by name."""
    left, outcomes = dict(enumerate(names)), {}
    while left:
        for number, outcome in launch(backend, ranks, left, log).items():
            name = left.pop(number)
            outcomes[name] = outcome
            if outcome[0] in ("failed", "hangs"):
                print(f"  {backend}, {ranks} ranks: {name} {outcome[0]}: {outcome[1]}", flush=True)
    return outcomes


def main() -> int:
    """Compare the two backends."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4], help="[2 3 4]")
    parser.add_argument(
        "--backends", nargs="+", default=["native", "python"], help="of mpi_bridge [native python]"
    )
    parser.add_argument("--only", nargs="+", default=[], help="names of tests [all]")
    parser.add_argument("--log", type=Path, default=Path("torch-suite.log"), help="for tracebacks")
    arguments = parser.parse_args()
    every = names_of_tests()
    names, known, wrong = arguments.only or every, differences(), 0
    for ranks in arguments.ranks:
        of_gloo = run("gloo", ranks, names, arguments.log)
        wanted = [name for name, outcome in of_gloo.items() if outcome[0] == "passed"]
        print(f"{ranks} ranks: gloo passes {len(wanted)} of {len(names)}", flush=True)
        for backend in arguments.backends:
            os.environ["MPI_BRIDGE_TORCH_BACKEND"] = backend
            ours = run("mpi_bridge", ranks, wanted, arguments.log)
            missed = {name: outcome for name, outcome in ours.items() if outcome[0] != "passed"}
            for name, (state, reason) in missed.items():
                why = known.get(name)
                wrong += why is None
                print(f"{ranks} ranks, {backend}: {name} {state}: {why or reason}")
            print(
                f"{ranks} ranks, {backend}: mpi_bridge passes {len(wanted) - len(missed)} of "
                f"these; {len(missed.keys() & known.keys())} others are explained",
                flush=True,
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
