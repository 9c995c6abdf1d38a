# SPDX-License-Identifier: Apache-2.0
"""One rank of torch's own tests of torch.distributed, which come with torch; started by run.py.

Each test gets a default group of its own. Prints a line for each test: its number, the rank, and
how it ended. After a test that has failed, the ranks cannot go on together, so this process ends.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import unittest
from datetime import timedelta
from pathlib import Path

ENDED_AFTER_A_FAILURE = 3

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("backend", help="that the groups have")
parser.add_argument("folder", type=Path, help="an empty one, which the ranks share")
parser.add_argument("tests", nargs="+", help="NUMBER:NAME of each")
arguments = parser.parse_args()

RANK = int(os.environ["OMPI_COMM_WORLD_RANK"])
SIZE = int(os.environ["OMPI_COMM_WORLD_SIZE"])
os.environ.update(
    # What tests expect of a backend follows from this; those of gloo are for tensors on the host.
    BACKEND="gloo",
    WORLD_SIZE=str(SIZE),
    RANK=str(RANK),
    TEMP_DIR=str(arguments.folder),
    MASTER_ADDR="127.0.0.1",
    MASTER_PORT="29500",
)
for each in ("barrier", "test_dir", "init_dir"):
    (arguments.folder / each).mkdir(exist_ok=True)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.testing._internal.common_distributed import TEST_SKIPS  # noqa: E402
from torch.testing._internal.common_utils import set_rng_seed  # noqa: E402
from torch.testing._internal.distributed import distributed_test as suite  # noqa: E402

if arguments.backend == "mpi_bridge":
    import mpi_bridge
    import mpi_bridge.torch_distributed

torch.set_num_threads(1)
SKIPS = {skip.exit_code: skip.message for skip in TEST_SKIPS.values()}


class Tests(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
    """The tests as a class; the base starts processes of its own, and these ranks exist already."""

    @property
    def destroy_pg_upon_exit(self) -> bool:
        return False


def outcome_of(number: str, name: str) -> str:
    test = Tests(name)
    test.rank = RANK
    test.file_name = str(arguments.folder / f"meeting.{number}")
    set_rng_seed(1234)  # as setUp() of these tests, which starts processes
    suite.Barrier.barrier_id = 1000 * int(number)
    seconds = suite.CUSTOM_PG_TIMEOUT.get(name, 300)
    options = {"rank": RANK, "world_size": SIZE, "timeout": timedelta(seconds=seconds)}
    dist.init_process_group(arguments.backend, init_method=f"file://{test.file_name}", **options)
    try:
        getattr(test, name)()
    except unittest.SkipTest as skipped:
        return f"skipped {skipped}"
    except SystemExit as end:
        if end.code in SKIPS:
            return f"skipped {SKIPS[end.code]}"
        return f"failed it ends the process with {end.code}"
    except BaseException as error:
        print(f"{name} on rank {RANK}\n{traceback.format_exc()}", file=sys.stderr, flush=True)
        return f"failed {type(error).__name__}: {str(error)[:200]}"
    return "passed"


def main() -> None:
    for each in arguments.tests:
        number, _, name = each.partition(":")
        outcome = outcome_of(number, name)
        # On a line of its own, whatever others have printed.
        print(f"\nRESULT {number} {RANK} {' '.join(outcome.split())}", flush=True)
        if outcome.startswith("failed"):
            sys.stdout.flush()
            os._exit(ENDED_AFTER_A_FAILURE)
        dist.barrier()
        dist.destroy_process_group()
    if arguments.backend == "mpi_bridge":
        mpi_bridge.shutdown()
    sys.stdout.flush()
    os._exit(0)  # threads of the tests may be there


main()
