# SPDX-License-Identifier: Apache-2.0
"""Runs the check_...() functions of programs on every rank and prints what became of each.

A check that fails on one rank does not end the program: the ranks agree on the outcome and go on.
Several programs in one process (`rows.py PROGRAM ...`) import their framework once. With TEST_RANKS
in the environment, there must be that many ranks: a launcher that does not wire them starts as many
jobs of one rank.
"""

import os
import runpy
import sys
import traceback

import check
import numpy as np

import mpi_bridge
from mpi_bridge import Op
from mpi_bridge.engine import Kind


def run(functions):
    """Run the checks among these; leave with status 1 if one failed on any rank.

    A check that raises check.Skipped must do so on all ranks.
    """
    wanted = os.environ.get("TEST_RANKS")
    if wanted is not None and int(wanted) != mpi_bridge.size():
        print(f"FAILED the ranks are not wired: {mpi_bridge.size()}, not {wanted}", flush=True)
        sys.exit(1)
    failed = 0
    for name, function in list(functions.items()):
        if not name.startswith("check_"):
            continue
        text, skipped = "", ""
        try:
            function()
        except check.Skipped as reason:
            skipped = str(reason)
        except Exception:
            text = traceback.format_exc()
        outcome = np.array([bool(text)], np.uint8)
        mpi_bridge.engine.call(
            Kind.ALLREDUCE, outcome, outcome, op=Op.MAX, name=f"outcome of {name}"
        )
        failed += int(outcome[0])
        if text:
            print(f"FAILED {name} on rank {mpi_bridge.rank()}\n{text}", flush=True)
        elif mpi_bridge.rank() == 0 and not outcome[0]:
            print(f"SKIPPED {name}: {skipped}" if skipped else f"PASSED {name}", flush=True)
    sys.exit(1 if failed else 0)


def main():
    checks = {}
    for program in sys.argv[1:]:
        checks.update(runpy.run_path(program, run_name="checks"))
    run(checks)


if __name__ == "__main__":
    main()
