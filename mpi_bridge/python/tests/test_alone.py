# SPDX-License-Identifier: Apache-2.0
"""The life of a process that is alone; needs libmpi_bridge."""

import os
import subprocess
import sys

ALONE = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**ALONE, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def prints(code):
    result = python(code)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_a_process_without_a_launcher_is_rank_0_of_1():
    code = (
        "import mpi_bridge as m; m.init(); m.init();"
        "print(m.rank(), m.size(), m.local_rank(), m.local_size(), m.cross_rank(), m.cross_size(),"
        " m.is_homogeneous(), m.is_initialized()); m.shutdown(); m.shutdown();"
        "print(m.is_initialized())"
    )
    assert prints(code) == ["0", "1", "0", "1", "0", "1", "True", "True", "False"]


def test_questions_before_init_raise_a_value_error():
    code = (
        "import mpi_bridge as m\n"
        "for ask in (m.rank, m.size, m.local_rank, m.cross_size, m.barrier):\n"
        "    try: ask()\n"
        "    except ValueError as error: print('refused', type(error).__name__, sep='_')\n"
    )
    assert prints(code) == ["refused_NotInitializedError"] * 5


def test_a_wrong_argument_carries_the_native_text():
    code = (
        "import mpi_bridge as m\n"
        "try: m.set_timeout(-1)\n"
        "except m.InvalidArgumentError as error: print(bool(str(error)), 'STATUS' in str(error))\n"
    )
    assert prints(code) == ["True", "False"]


def test_tasks_of_slurm_without_pmix_are_refused_with_the_way_out():
    code = "import mpi_bridge as m; m.init()"
    result = python(
        code,
        SLURM_JOB_ID="1",
        SLURM_STEP_ID="0",
        SLURM_PROCID="0",
        SLURM_NTASKS="4",
        SLURM_STEP_NUM_TASKS="4",
    )
    assert result.returncode != 0
    assert "BootstrapError" in result.stderr
    assert "--mpi=pmix" in result.stderr


def test_an_uncaught_exception_leaves_with_its_traceback_and_status_1():
    result = python("import mpi_bridge as m; m.init(); raise KeyError('lost')")
    assert result.returncode == 1
    assert "KeyError: 'lost'" in result.stderr
