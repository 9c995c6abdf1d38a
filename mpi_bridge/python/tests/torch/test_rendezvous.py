# SPDX-License-Identifier: Apache-2.0
"""Whose variables say where the ranks meet: the user's, torchrun's or batchai's; needs no ranks."""

import threading
from types import SimpleNamespace

import pytest
import torch.distributed as dist

from mpi_bridge import meeting

OF_BATCHAI = {
    "RANK": "1",
    "WORLD_SIZE": "2",
    "MASTER_ADDR": "10.0.0.4",
    "MASTER_PORT": "4321",
    "TORCHELASTIC_RUN_ID": "4711.0",
}


@pytest.fixture
def environment(monkeypatch):
    for name in (*OF_BATCHAI, "BATCHAI_RANK_VARIABLES", "TORCHELASTIC_USE_AGENT_STORE"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def set_by_batchai(environment):
    for name, value in OF_BATCHAI.items():
        environment.setenv(name, value)
    entries = ",".join(f"{name}={value}" for name, value in OF_BATCHAI.items())
    environment.setenv("BATCHAI_RANK_VARIABLES", entries)


def test_no_variables_are_not_the_users(environment):
    assert not meeting.set_by_the_user()


def test_the_variables_of_batchai_are_not_the_users(environment):
    set_by_batchai(environment)
    assert not meeting.set_by_the_user()


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"])
def test_another_value_is_the_users(environment, name):
    set_by_batchai(environment)
    environment.setenv(name, "7")
    assert meeting.set_by_the_user()


# With one worker in each task, torchrun may give some of them the very values of batchai.
def test_the_workers_of_torchrun_are_recognized_even_by_equal_values(environment):
    set_by_batchai(environment)
    environment.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    assert meeting.set_by_the_user()


# Stores of torch before 2.3 cannot be asked whether they have a key.
@pytest.mark.parametrize("functions", [("set", "get", "wait"), ("set", "get", "wait", "check")])
def test_ranks_agree_on_a_name_and_ranks_that_start_again_on_another(functions):
    torchs = dist.HashStore()
    store = SimpleNamespace(**{name: getattr(torchs, name) for name in functions})

    def names_of_three():
        names = {}
        ranks = [
            threading.Thread(
                target=lambda rank=rank: names.update(
                    {rank: meeting._agree(store, rank, 3, "place", 30)}
                )
            )
            for rank in range(3)
        ]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        assert sorted(names) == [0, 1, 2]
        return set(names.values())

    first, second = names_of_three(), names_of_three()
    assert len(first) == len(second) == 1
    assert first != second
