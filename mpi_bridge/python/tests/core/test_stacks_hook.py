# SPDX-License-Identifier: Apache-2.0
"""What each Python of a job does at its start, so that `batchai job stacks` can ask it."""

import subprocess
import sys
from pathlib import Path

HOOK = Path(__file__).parents[2] / "mpi_bridge" / "hook"
# Prints what the process says of itself and, once it has been asked, what its functions say.
ASKED = """
import batchai_stacks, os
def place():
    os.kill(os.getpid(), batchai_stacks._number)
def text():
    return os.pread(batchai_stacks._descriptor, 10000, 0).decode()
print(text(), end="")
place()
assert "in place" in text(), text()
"""


def run(script, *paths, **environment):
    python_path = ":".join(map(str, [HOOK, *paths]))
    given = {"PATH": "/usr/bin:/bin", "PYTHONPATH": python_path, "SLURM_JOB_ID": "7", **environment}
    result = subprocess.run(
        [sys.executable, "-c", script],
        env={name: value for name, value in given.items() if value},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert result.returncode == 0, result.stderr
    return result


def test_a_process_says_how_it_can_be_asked_and_answers():
    result = run(ASKED + "print('pid', os.getpid())")
    head, pid = result.stdout.splitlines()
    name, version, process, descriptor, number = head.split()
    assert (name, version, process) == ("batchai-stacks", "1", pid.split()[1])
    assert int(descriptor) >= 200
    assert int(number) > 34
    assert result.stderr == ""


def test_a_forked_child_has_a_file_of_its_own():
    script = """
import os, sys
child = os.fork()
if child:
    os.waitpid(child, 0)
    sys.exit()
"""
    head = run(script + ASKED + "print('pid', os.getpid())").stdout.splitlines()
    assert head[0].split()[2] == head[1].split()[1]


def test_a_signal_that_is_taken_is_left_alone():
    script = """
import signal, subprocess, sys
signal.signal(signal.SIGRTMAX - 1, signal.SIG_IGN)
inner = "import batchai_stacks, signal; print(signal.SIGRTMAX - batchai_stacks._number)"
subprocess.run([sys.executable, "-c", inner], check=True)
"""
    assert run(script).stdout == "2\n"


def test_what_python_would_have_run_is_run(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; print('mine', __name__)")
    script = f"import sys; print({str(HOOK)!r} in sys.path, sys.modules['sitecustomize'].__file__)"
    lines = run(script, tmp_path).stdout.splitlines()
    assert lines == ["mine sitecustomize", f"False {tmp_path}/sitecustomize.py"]


def test_it_does_nothing_unless_it_is_wanted():
    script = "import batchai_stacks; print(batchai_stacks._descriptor)"
    assert run(script, SLURM_JOB_ID="").stdout == "-1\n"
    assert run(script, BATCHAI_STACKS="0").stdout == "-1\n"


def test_a_process_whose_threads_are_busy_survives_many_questions():
    # Breaks when a thread reads the frames of others while they run.
    script = """
import batchai_stacks, json, os, subprocess, sys, threading
def busy():
    while True:
        json.loads(json.dumps({"a": list(range(50))}))
for _ in range(3):
    threading.Thread(target=busy, daemon=True).start()
ask = "import os, time; [(os.kill({0}, {1}), time.sleep(0.002)) for _ in range(500)]"
subprocess.run([sys.executable, "-c", ask.format(os.getpid(), batchai_stacks._number)], check=True)
os._exit(0)
"""
    run(script)
