# SPDX-License-Identifier: Apache-2.0
"""send, recv and what is made of them, over the messages of mpi_bridge.

Each group has a channel of its own, so that messages of different groups are not mixed up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from typing import Any

import torch
import torch.distributed as dist

from .. import messages, torch_streams
from ..errors import CollectiveTimeoutError
from ..plain_tensors import is_plain, plain
from .arguments import require_tag
from .operations import Operations
from .work import EngineWork, WorkOfSeveral

Finish = Callable[[], None]


class PointToPoint(Operations):
    """Messages between the members, and the barrier that names those that are missing."""

    _barriers = 0

    @property
    def _channel(self) -> str:
        return f"torch.{self._name}"

    @cached_property
    def _channel_bytes(self) -> bytes:
        return self._channel.encode()

    def send(self, tensors: list[torch.Tensor], dst: int, tag: int = 0) -> dist.Work:
        """Send a tensor to a member; done when the member receives it."""
        require_tag(tag)
        (tensor,) = tensors
        if not _is_in_host_memory(tensor):
            # Device memory goes through the host. cpu() waits for what the current stream holds.
            tensor = plain(tensor).cpu()
        to = self._job_rank(dst)
        return self._work(messages.send_tensor(tensor, to, self._channel_bytes, tag), tensors)

    def recv(self, tensors: list[torch.Tensor], src: int, tag: int = 0) -> dist.Work:
        """Receive a tensor of the same number of bytes from a member."""
        message, finish = self._receive(tensors, self._job_rank(src), tag)
        return self._work(message, tensors, finish, lambda: src)

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> dist.Work:
        """Receive from whichever member sends first."""
        message, finish = self._receive(tensors, messages.ANY_RANK, tag)
        # torch counts in the order of the group, and the message in ranks of the job.
        return self._work(message, tensors, finish, lambda: self._members.index(message.peer()))

    def _receive(
        self, tensors: list[torch.Tensor], source: int, tag: int
    ) -> tuple[messages.Message, Finish | None]:
        require_tag(tag)
        (tensor,) = tensors
        if _is_in_host_memory(tensor):
            return messages.receive_tensor(tensor, source, self._channel_bytes, tag), None
        landed = torch.empty(tensor.shape, dtype=tensor.dtype)
        place = tensor.detach()

        def copy_to_its_place() -> None:
            with torch.no_grad():
                place.copy_(landed)

        message = messages.receive_tensor(landed, source, self._channel_bytes, tag)
        return message, copy_to_its_place

    def _work(
        self,
        message: messages.Message,
        tensors: list[torch.Tensor],
        finish: Finish | None = None,
        source: Callable[[], int] | None = None,
    ) -> dist.Work:
        # A receive ends with a copy in the order of the current stream.
        copied_to = {each.device for each in tensors if finish is not None and each.is_cuda}
        work = EngineWork(
            [message],
            tensors,
            finish,
            self._own_completer,
            limit=self._limit,
            streams={device: torch_streams.current(device) for device in copied_to},
            source=source,
        )
        self._remember((), work)
        return work

    # What torch calls around operations that it wants to be one.

    def start_coalescing(self, _device: Any = None) -> None:
        """Collect the operations that follow."""
        self._coalesced = []

    def end_coalescing(self, _device: Any = None) -> dist.Work:
        """Return one Work for what was collected."""
        works, self._coalesced = self._coalesced or [], None
        return WorkOfSeveral(works)

    _start_coalescing, _end_coalescing = start_coalescing, end_coalescing

    def monitored_barrier(
        self, timeout: Any = None, wait_all_ranks: bool = False, **options: Any
    ) -> None:
        """Wait for all members. Member 0 names those that do not come in time.

        Scripts look for words of Gloo's errors, which those of this function have, too.
        """
        # A Backend is given options, a ProcessGroup a time. A negative time is not set.
        given = options.get("timeout", getattr(timeout, "timeout", timeout))
        given = -1.0 if given is None else given
        seconds = given.total_seconds() if isinstance(given, timedelta) else float(given)
        wait_all_ranks = options.get("waitAllRanks", wait_all_ranks)
        self._barriers += 1
        deadline = time.monotonic() + seconds if seconds >= 0 else None
        if seconds == 0 and self._group_rank == 0:
            raise RuntimeError(
                f"Rank {self._members[0]} timed out in monitoredBarrier of group {self._name}: "
                "its timeout is 0"
            )
        if self._group_rank == 0:
            self._await_everybody(deadline, seconds, wait_all_ranks)
        else:
            self._report_to_first(deadline, seconds)

    def _signal(self, member: int, receives: bool) -> messages.Message:
        post = messages.receive if receives else messages.send
        channel = f"{self._channel}.monitored_barrier"
        return post(bytearray(1), self._members[member], channel, self._barriers)

    def _await_everybody(self, deadline: float | None, seconds: float, all_ranks: bool) -> None:
        missing = []
        arrivals = {member: self._signal(member, True) for member in range(1, self.size())}
        for member, arrival in arrivals.items():
            if not _is_done(arrival, deadline):
                missing.append(self._members[member])
                if not all_ranks:
                    break
        if missing:
            ranks = f"Rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
            more = "" if all_ranks else ", and perhaps others"
            raise RuntimeError(
                f"{ranks} failed to pass monitoredBarrier of group {self._name} within "
                f"{seconds:g} s{more}"
            )
        answers = [self._signal(member, False) for member in range(1, self.size())]
        for answer in answers:
            _finish(answer, deadline)

    def _report_to_first(self, deadline: float | None, seconds: float) -> None:
        report = self._signal(0, False)
        answer = self._signal(0, True)
        if _finish(report, deadline) and _is_done(answer, deadline):
            return
        raise RuntimeError(
            f"Rank {self._members[self._group_rank]} successfully reached monitoredBarrier, but "
            f"received errors while waiting for send/recv from rank {self._members[0]}: it did not "
            f"say within {seconds:g} s that all ranks of group {self._name} have come; its error "
            "names those that have not"
        )


def _is_in_host_memory(tensor: torch.Tensor) -> bool:
    """Tell whether the host finds the tensor's elements one after the other at its address."""
    return tensor.is_cpu and is_plain(tensor)


def _is_done(message: messages.Message, deadline: float | None) -> bool:
    """Wait for a receive, and withdraw it if it is too late."""
    try:
        message.wait(0 if deadline is None else max(deadline - time.monotonic(), 0.001))
    except CollectiveTimeoutError:
        if deadline is None:
            raise
        return False
    finally:
        message.release()
    return True


def _finish(message: messages.Message, deadline: float | None) -> bool:
    """Wait for a send. One that nobody receives in time is left behind."""
    try:
        message.wait(0 if deadline is None else max(deadline - time.monotonic(), 0.001))
    except CollectiveTimeoutError:
        message.leave_behind()
        if deadline is None:
            raise
        return False
    message.release()
    return True
