# SPDX-License-Identifier: Apache-2.0
"""What `batchai job stacks` asks of a process that uses torch.distributed, without PyTorch.

tests/torch/test_flight_recorder.py has the same with it.
"""

import subprocess
import sys

import pytest
from asked import HOOK, ask, environment, files_of, thread_of

sys.path.insert(0, str(HOOK))
import batchai_torch_calls

# As the recorder of NCCL's calls in PyTorch writes it, with times in nanoseconds.
ENTRY = {
    "record_id": 4,
    "pg_id": 0,
    "process_group": ["0", "default_pg"],
    "collective_seq_id": 5,
    "p2p_seq_id": 0,
    "op_id": 5,
    "profiling_name": "nccl:all_reduce",
    "time_created_ns": 70_000_000_000,
    "input_sizes": [[8, 4], []],
    "input_dtypes": ["Float", "Long"],
    "output_sizes": [[8, 4], []],
    "output_dtypes": ["Float", "Long"],
    "state": "started",
    "time_discovered_started_ns": 71_000_000_000,
    "time_discovered_completed_ns": 0,
    "retired": False,
    "timeout_ms": 600000,
    "is_p2p": False,
}
KNOWN = {"0": ("default_pg", "cpu:gloo,cuda:nccl", [0, 1, 3]), "1": ("", "cpu:ucc", [0, 1])}


def groups_of(backend, *entries):
    record = {"version": "2.10", "entries": list(entries)}
    return batchai_torch_calls._groups_of(backend, record, KNOWN, 100_000_000_000)


def test_a_call_that_is_open_is_told():
    (group,) = groups_of("nccl", {**ENTRY, "collective_seq_id": 4, "state": "completed"}, ENTRY)
    call = {
        "number": 5,
        "pointToPoint": False,
        "operation": "nccl:all_reduce",
        "state": "started",
        "input": "Float [8, 4], Long []",
        "output": "Float [8, 4], Long []",
        "seconds": 30,
    }
    assert group == {
        "backend": "nccl",
        "name": "0",
        "description": "default_pg",
        "ranks": [0, 1, 3],
        "open": [call],
        "last": call,
    }


def test_a_group_without_calls_is_told():
    (group,) = groups_of("gloo")
    assert (group["ranks"], group["open"], group["last"]) == ([0, 1, 3], [], None)
    # PyTorch leaves the key out if there are no entries.
    assert batchai_torch_calls._groups_of("gloo", {"version": "2.10"}, KNOWN, 0) == [group]


def test_a_group_that_has_been_destroyed_is_not_told():
    (group,) = groups_of("nccl", {**ENTRY, "process_group": ["7", "old"]})
    assert (group["name"], group["last"]) == ("0", None)


def test_what_has_ended_is_not_open():
    retired = {**ENTRY, "state": "scheduled", "retired": True}
    assert groups_of("gloo", retired)[0]["open"] == []
    # NCCL gives up a call that has failed.
    assert len(groups_of("nccl", retired)[0]["open"]) == 1
    assert groups_of("nccl", {**ENTRY, "state": "completed"})[0]["open"] == []


def test_messages_have_their_own_numbers():
    message = {**ENTRY, "is_p2p": True, "p2p_seq_id": 2, "profiling_name": "nccl:recv 1<-0"}
    (group,) = groups_of("nccl", ENTRY, message)
    assert [call["number"] for call in group["open"]] == [5, 2]
    assert group["last"]["number"] == 5


def test_an_endless_queue_is_told_from_its_beginning():
    queue = [{**ENTRY, "collective_seq_id": number} for number in range(1, 1001)]
    (group,) = groups_of("nccl", *queue)
    assert [call["number"] for call in group["open"]] == list(range(1, 9))
    assert group["last"]["number"] == 1000


@pytest.fixture
def process():
    """A Python that serves, and whose child does so, too."""
    script = """
import os, sys
import batchai_torch
batchai_torch._load().begin()
batchai_torch._load().begin()
serves, served = os.pipe()
child = os.fork()
if child == 0:
    batchai_torch._load().begin()
    os.write(served, b"s")
    sys.stdin.read()
    os._exit(0)
os.read(serves, 1)
print(child, flush=True)
os.waitpid(child, 0)
"""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        yield parent.pid, int(parent.stdout.readline())
        parent.stdin.close()
        assert parent.wait(60) == 0


def test_a_process_and_its_child_answer_for_themselves(process):
    for number, pid in enumerate(process):
        for again in range(2):
            told = ask(pid, 10 * number + again + 1)
            assert told["why"] == (
                "this release of PyTorch records them in another way "
                "(KeyError: 'torch._C._distributed_c10d')"
            )
            assert (told["schema"], told["rank"], told["groups"]) == ("batchai-torch/v1", None, [])
    # Breaks when a child keeps what its parent is asked through.
    for pid in process:
        assert len(files_of(pid)) == 1


def run_hook(script):
    """Run a program that has the thread, and return what it has printed."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", START + script],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


START = """
import os
import time
import batchai_torch
calls = batchai_torch._load()
calls.begin()
(file, _), (questions, _) = calls._opened
"""


def test_a_child_that_uses_no_torch_keeps_nothing():
    # What it has opened since then in the same place is its own.
    script = """
child = os.fork()
if child == 0:
    for descriptor in file, questions:
        try:
            os.fstat(descriptor)
        except OSError:
            continue
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
own = os.open("/dev/null", os.O_RDONLY)
os.dup2(own, questions)
child = os.fork()
if child == 0:
    os.fstat(questions)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    run_hook(script)


def test_what_the_program_has_opened_in_their_place_is_left_alone(tmp_path):
    # The thread sleeps in a read of the pipe meanwhile, and is asked once more.
    script = f"""
path = {str(tmp_path / "own")!r}
ask = os.open(f"/proc/self/fd/{{questions}}", os.O_WRONLY)
def threads():
    return len(os.listdir("/proc/self/task"))
before = threads()
assert before == 2
with open(path, "w") as own:
    own.write("x" * 1000)
    own.flush()
    os.dup2(own.fileno(), file)
    os.write(ask, b"7\\n")
    while threads() == before:
        time.sleep(0.01)
assert open(path).read() == "x" * 1000
"""
    run_hook(script)


def test_the_thread_prints_nothing_when_it_cannot_go_on():
    # What it has to write does not fit.
    script = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
ask = os.open(f"/proc/self/fd/{questions}", os.O_WRONLY)
os.write(ask, b"7\\n")
while len(os.listdir("/proc/self/task")) > 1:
    time.sleep(0.01)
"""
    run_hook(script)


PROGRAM = """
import importlib.util
import sys
import batchai_torch


class OfPython2:
    def find_module(self, name, path=None):
        return None


class Loads:  # as before Python 3.4
    def load_module(self, name):
        import types

        sys.modules[name] = types.ModuleType(name)
        return sys.modules[name]


class Finds:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "torch.distributed.distributed_c10d":
            return importlib.util.spec_from_loader(name, Loads())


assert sys.meta_path[0] is batchai_torch._Finder
sys.meta_path.insert(1, OfPython2())
WHAT
"""


def run_with_torch(path, what):
    """Run some lines of a program that has a package of PyTorch's name and form."""
    package = path / "torch" / "distributed"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    text = "import os\nassert 'FAIL' not in os.environ\ndef init_process_group(): pass\n"
    (package / "distributed_c10d.py").write_text(text)
    base = environment()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM.replace("WHAT", what)],
        env={**base, "PYTHONPATH": f"{base['PYTHONPATH']}:{path}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


IMPORT = "import torch.distributed.distributed_c10d as c10d\n"
IS_WATCHED = (
    "assert c10d.init_process_group.__wrapped__\nassert batchai_torch._Finder not in sys.meta_path"
)


def test_an_old_finder_is_passed_over(tmp_path):
    run_with_torch(tmp_path, IMPORT + IS_WATCHED)


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="Python has no such loaders any more")
def test_an_old_loader_loads(tmp_path):
    run_with_torch(tmp_path, "sys.meta_path.insert(2, Finds)\n" + IMPORT)


def test_what_is_looked_for_may_be_imported_later(tmp_path):
    look = "assert importlib.util.find_spec(c10d_name)\n"
    fail = (
        "import os\nos.environ['FAIL'] = '1'\n"
        "try:\n    import torch.distributed.distributed_c10d\n"
        "except AssertionError:\n    del os.environ['FAIL']\n"
    )
    name = "c10d_name = 'torch.distributed.distributed_c10d'\n"
    run_with_torch(tmp_path, name + look + fail + IMPORT + IS_WATCHED)


def test_another_thread_may_have_taken_the_finder_away(tmp_path):
    run_with_torch(
        tmp_path,
        "class Takes:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if batchai_torch._Finder in sys.meta_path and name.endswith('c10d'):\n"
        "            sys.meta_path.remove(batchai_torch._Finder)\n"
        "sys.meta_path.insert(1, Takes)\n" + IMPORT + IS_WATCHED,
    )


def test_the_thread_takes_no_signals(process):
    ask(process[0])  # it has begun
    blocked = int(thread_of(process[0])["SigBlk"], 16)
    for number in (1, 2, 10, 12, 15, 17, 63):
        assert blocked >> (number - 1) & 1, number
