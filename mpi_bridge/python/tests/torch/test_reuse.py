# SPDX-License-Identifier: Apache-2.0
"""What torch's allocator is told of the streams that use a tensor; needs no device."""

import pytest

pytest.importorskip("torch")
import torch

from horovod.torch import tensors
from horovod.torch.tensors import Order
from mpi_bridge import torch_streams
from mpi_bridge.torch_distributed.work import EngineWork

DEVICE = torch.device("cuda", 0)


class Recorder:
    def __init__(self):
        self.streams = []

    def record_stream(self, stream):
        self.streams.append(stream)


@pytest.fixture
def current(monkeypatch):
    """The number of the current stream."""
    number = [7]
    monkeypatch.setattr(torch_streams, "current", lambda device: number[0])
    monkeypatch.setattr(torch_streams, "make_current_wait", lambda device, stream: None)
    monkeypatch.setattr(torch_streams, "stream_of", lambda device, stream: ("stream", stream))
    return number


def test_memory_is_not_reused_while_the_operations_stream_works_on_it(current):
    send, recv = Recorder(), Recorder()
    Order(DEVICE, 7).follow_with(send, recv, None)
    assert send.streams == recv.streams == [("stream", 7)]


def test_memory_is_not_reused_while_the_waiting_stream_reads_the_result(current):
    target, result = Recorder(), Recorder()
    current[0] = 9
    Order(DEVICE, 7).join(target, result)
    assert target.streams == result.streams == [("stream", 9)]


class DoneAlready:
    def wait_only(self, seconds=0):
        pass

    def release(self):
        pass


def test_memory_is_not_reused_while_the_waiting_stream_copies_from_it(current, monkeypatch):
    said = []
    for name in ("make_current_wait", "make_wait_for_current"):
        monkeypatch.setattr(
            torch_streams, name, lambda device, number, name=name: said.append((name, number))
        )
    current[0] = 9
    EngineWork([DoneAlready()], [], lambda: said.append("copy"), None, streams={DEVICE: 7}).wait()
    assert said == [
        ("make_current_wait", 7),
        "copy",
        ("make_wait_for_current", 7),
        ("make_current_wait", 9),
    ]


def test_host_memory_has_no_streams():
    target = Recorder()
    order = Order(torch.device("cpu"), None)
    order.follow_with(target)
    order.join(target)
    assert target.streams == []


def test_a_result_in_the_tensor_itself_is_recorded(monkeypatch):
    joined = []
    monkeypatch.setattr(Order, "join", lambda self, *each: joined.extend(each))
    output = torch.zeros(2)
    assert tensors._into(output, output, Order(torch.device("cpu"), None)) is output
    assert [each is output for each in joined] == [True, True]
