# SPDX-License-Identifier: Apache-2.0
"""Runs the check_...() functions of programs on every rank and prints what became of each.

A check that fails on one rank does not end the program: the ranks agree on the outcome and go on.
Several programs in one process (`rows.py PROGRAM ...`) import their framework once.
"""

import runpy
import sys
import traceback

import numpy as np

import mpi_bridge
from mpi_bridge import Op
from mpi_bridge.engine import Kind


def run(functions):
    """Run the checks among these; leave with status 1 if one failed on any rank."""
    failed = 0
    for name, function in list(functions.items()):
        if not name.startswith("check_"):
            continue
        text = ""
        try:
            function()
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
            print(f"PASSED {name}", flush=True)
    sys.exit(1 if failed else 0)


def main():
    checks = {}
    for program in sys.argv[1:]:
        checks.update(runpy.run_path(program, run_name="checks"))
    run(checks)


if __name__ == "__main__":
    main()
