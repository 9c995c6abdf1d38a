# SPDX-License-Identifier: Apache-2.0
"""Ranks that neither PMIx nor PMI-2 has started meet in a store of torch."""

import os
import subprocess
import sys

import launch
import pytest

# Without those of a launcher that the tests themselves run under.
VARIABLES = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("PMIX_", "PMI_", "SLURM_", "OMPI_"))
}
ENVIRONMENT = {**VARIABLES, "OMP_NUM_THREADS": "1", "MPI_BRIDGE_TIMEOUT_SECONDS": "60"}


def torchrun(ranks, *program, restarts=0):
    # Its store is on a port that the system chooses.
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *("--max-restarts", str(restarts)),
        *("--nproc-per-node", str(ranks), *map(str, program)),
    ]
    return subprocess.run(
        command, env=ENVIRONMENT, capture_output=True, text=True, timeout=600, check=False
    )


def test_ranks_of_torchrun():
    result = torchrun(3, launch.RANKS / "torch_distributed.py")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "passed on 3 ranks" in result.stdout


def test_ranks_that_torchrun_starts_again():
    result = torchrun(3, launch.RANKS / "torch_started_again.py", restarts=2)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "passed on 3 ranks in attempt 2" in result.stdout


def test_a_script_of_horovod_under_torchrun():
    result = torchrun(2, launch.RANKS / "torch_horovod_alone.py")
    for rank in range(2):
        assert f"passed on rank {rank}" in result.stdout, result.stdout + result.stderr


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_plain_loop(size, tmp_path):
    ranks = [
        subprocess.Popen(
            [
                *(sys.executable, str(launch.RANKS / "torch_by_file.py")),
                *(str(tmp_path / "meeting"), str(rank), str(size)),
            ],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    for number, rank in enumerate(ranks):
        output, _ = rank.communicate(timeout=600)
        assert (rank.returncode, output.splitlines()[-1:]) == (
            0,
            [f"passed on rank {number}"],
        ), output
