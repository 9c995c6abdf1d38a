# SPDX-License-Identifier: Apache-2.0
"""The life of a process that is alone; needs libmpi_bridge."""

import os
import subprocess
import sys

import pytest

ALONE = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**ALONE, **environment},
        capture_output=True,
        text=True,
        timeout=600,
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


@pytest.mark.parametrize(("code", "seen"), [(3, 3), (0, 1), (256, 1), (-256, 1), (259, 3)])
def test_an_abort_never_looks_like_success(code, seen):
    result = python(f"import mpi_bridge as m; m.init(); m.abort({code}, 'why')")
    assert (result.returncode, "aborted: why" in result.stderr) == (seen, True)


def test_devices_may_finish_before_the_process_leaves():
    code = (
        "import mpi_bridge as m\n"
        "from mpi_bridge import world\n"
        "m.init()\n"
        "def finish(): print('finish', m.is_initialized())\n"
        "world.before_leaving('device', finish)\n"
        "world.before_leaving('device', lambda: print('another'))\n"
        "m.shutdown(); m.shutdown()\n"
        "m.init()\n"
        "world.before_leaving('device', lambda: print('at_exit', m.is_initialized()))\n"
    )
    assert prints(code) == ["finish", "True", "at_exit", "True"]


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


def test_a_forked_process_is_told_and_leaves_its_parent_alone():
    code = (
        "import mpi_bridge as m, os, sys\n"
        "from mpi_bridge import memory\n"
        "m.init()\n"
        "array = memory.allocate(4096)\n"
        "array[0] = b'p'\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try: m.barrier()\n"
        "    except m.ForkedError as error: print('refused', 'fork' in str(error), m.rank())\n"
        "    array[0] = b'c'\n"
        "    del array\n"
        "    m.shutdown()\n"
        "    sys.exit(3)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), array[0].decode())\n"
        "m.barrier()\n"
        "m.shutdown()\n"
        "print(array[0].decode())\n"
    )
    assert prints(code) == ["refused", "True", "0", "3", "p", "p"]


def test_an_uncaught_exception_of_a_forked_process_is_its_own():
    code = (
        "import mpi_bridge as m, os\n"
        "m.init()\n"
        "child = os.fork()\n"
        "if child == 0: raise KeyError('of the child')\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "m.barrier()\n"
    )
    assert prints(code) == ["1"]


def test_memory_that_another_thread_allocates_during_shutdown_is_kept_or_refused():
    code = (
        "import threading\n"
        "import mpi_bridge as m\n"
        "from mpi_bridge import memory, native\n"
        "m.init()\n"
        "got = []\n"
        "def allocate():\n"
        "    try:\n"
        "        got.append(memory.allocate(4096))\n"
        "    except m.MpiBridgeError:\n"
        "        pass\n"
        "other = threading.Thread(target=allocate)\n"
        "def finalize():\n"
        "    other.start()\n"
        "    other.join(0.2)\n"
        "    native.call('mpib_finalize')\n"
        "memory.keep_beyond(finalize)\n"
        "other.join()\n"
        "for array in got:\n"
        "    array[0] = b'x'\n"
        "print('alive')"
    )
    assert prints(code) == ["alive"]
