# SPDX-License-Identifier: Apache-2.0
"""Groups of torch.distributed that go on without some of their ranks.

Breaks when the ranks that are left cannot reduce, when they hear of a rank that is left out, or
when what helps is not said.
"""

import os
import subprocess
import sys

import launch
import pytest

torch_distributed = pytest.importorskip("torch.distributed")
if not hasattr(torch_distributed, "shrink_group"):
    pytest.skip("this torch has no shrink_group()", allow_module_level=True)

RANKS = 4
LOST = {"loss": (2, 3), "planned": (), "group": (2,), "again": (1, 2)}


@pytest.mark.parametrize(
    ("way", "backend"),
    [*((way, "native") for way in LOST), ("loss", "python"), ("group", "python")],
)
def test_ranks_of_a_loop(way, backend):
    # Not a rank's own store, which would end with the rank.
    store = torch_distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PMIX_", "PMI_", "SLURM_", "OMPI_"))
    }
    environment.update(
        OMP_NUM_THREADS="1",
        WORLD_SIZE=str(RANKS),
        MPI_BRIDGE_TIMEOUT_SECONDS="60",
        MPI_BRIDGE_TORCH_BACKEND=backend,
    )
    ranks = [
        subprocess.Popen(
            [sys.executable, str(launch.RANKS / "torch_shrink.py"), str(store.port), way],
            env={**environment, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(RANKS)
    ]
    outputs = [rank.communicate(timeout=600)[0] for rank in ranks]
    for number, (rank, output) in enumerate(zip(ranks, outputs)):
        if number in LOST[way]:
            assert rank.returncode == -9, output
        else:
            assert (rank.returncode, f"passed on rank {number}" in output) == (0, True), output


@pytest.mark.skipif("4 ranks" not in launch.LAUNCHERS, reason="there is no mpirun")
def test_ranks_of_mpirun():
    result = launch.run("torch_shrink.py", "4 ranks", arguments=["launched", "planned"])
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("passed on rank") == RANKS
