# SPDX-License-Identifier: Apache-2.0
"""`batchai job stacks` learns from PyTorch's flight recorder at which collective each rank is."""

import subprocess
import sys
import time
from contextlib import contextmanager

import launch
import pytest
from asked import ask, environment, files_of, thread_of

pytest.importorskip("torch")

BEGIN = """
import os, sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
"""
# Rank 1 misses the last collective until its standard input ends.
LATE = (
    BEGIN
    + """
pair = dist.new_group([0, 1], group_desc="pair")
dist.broadcast(torch.ones(10), 0)
dist.all_reduce(torch.ones(3, dtype=torch.int64), group=pair)
print("there", flush=True)
if rank == 1:
    sys.stdin.read()
dist.all_reduce(torch.ones(2, 4))
print("over", flush=True)
sys.stdin.read()
os._exit(0)  # Gloo's threads may crash a Python that ends
"""
)
# The ranks work until there is a file.
BUSY = (
    BEGIN
    + """
print("there", flush=True)
going = torch.ones(1)
while going.item():
    dist.all_reduce(torch.ones(10))
    going = torch.tensor([0.0 if os.path.exists(sys.argv[1]) else 1.0])
    dist.broadcast(going, 0)
os._exit(0)
"""
)


@contextmanager
def two_ranks(script, *arguments):
    holder = launch.hold_port()
    port = holder.getsockname()[1]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            env=environment(
                MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2"
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        for process in started:
            assert process.stdout.readline() == "there\n"
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()
        holder.close()


@pytest.fixture
def ranks():
    with two_ranks(LATE) as started:
        yield started


def told_when(pid, is_so):
    deadline = time.monotonic() + 60
    while True:
        told = ask(pid, time.monotonic_ns())
        groups = {group["description"]: group for group in told["groups"]}
        if is_so(groups) or time.monotonic() > deadline:
            return told, groups
        time.sleep(0.1)


def test_the_rank_that_is_behind_is_told_from_the_one_that_waits(ranks):
    # What a rank has waited for may still be open here for a moment.
    told, groups = told_when(
        ranks[0].pid,
        lambda groups: (
            [call["operation"] for call in groups["default_pg"]["open"]] == ["gloo:all_reduce"]
            and not groups["pair"]["open"]
        ),
    )
    assert (told["why"], told["rank"]) == ("", 0)
    (call,) = groups["default_pg"]["open"]
    assert call["operation"] == "gloo:all_reduce"
    assert call["input"] == "Float [2, 4]"
    assert groups["default_pg"]["ranks"] == [0, 1]
    assert groups["pair"]["open"] == []
    assert groups["pair"]["last"]["input"] == "Long [3]"
    told, groups = told_when(
        ranks[1].pid, lambda groups: not any(group["open"] for group in groups.values())
    )
    assert (told["why"], told["rank"]) == ("", 1)
    assert groups["default_pg"]["open"] == []
    assert groups["default_pg"]["last"]["operation"] == "gloo:broadcast"
    assert groups["default_pg"]["last"]["number"] == call["number"] - 1
    # It goes on as if nobody had asked.
    ranks[1].stdin.close()
    for process in ranks:
        assert process.stdout.readline() == "over\n"
    told, groups = told_when(ranks[0].pid, lambda groups: not groups["default_pg"]["open"])
    assert groups["default_pg"]["open"] == []
    assert groups["default_pg"]["last"]["number"] == call["number"]


def test_a_program_without_a_process_group_has_neither_thread_nor_files():
    script = """
import sys
import torch.distributed as dist
import torch.distributed.distributed_c10d as same
assert dist.init_process_group is same.init_process_group
assert dist.init_process_group.__name__ == "init_process_group"
assert not any("_Finder" in repr(finder) and "batchai" in repr(finder) for finder in sys.meta_path)
print("there", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "there\n"
        assert files_of(process.pid) == []
        assert thread_of(process.pid) is None
        process.stdin.close()
        assert process.wait(60) == 0


def test_many_questions_do_not_hurt_ranks_that_work(tmp_path):
    with two_ranks(BUSY, str(tmp_path / "stop")) as ranks:
        for number in range(60):
            assert ask(ranks[number % 2].pid, number)["why"] == ""
        (tmp_path / "stop").touch()
        assert [process.wait(60) for process in ranks] == [0, 0]
