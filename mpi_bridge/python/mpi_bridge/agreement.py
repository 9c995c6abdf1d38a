# SPDX-License-Identifier: Apache-2.0
"""How the members of a process set agree on its number, although any of them may give up.

Each member sends the lowest one, the leader, a request: which numbers it uses, and how many sets it
knows of. The leader answers with the serial number of a set that is free everywhere. A send cannot
be withdrawn, so what an attempt that was given up leaves behind must not be taken for a part of a
later one: attempts are numbered, and an answer has the number of its request as its tag. It is
received only while the member waits in this attempt, so leader and member agree on its success.
"""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from . import messages, world
from .errors import CollectiveTimeoutError
from .messages import Message

COUNT = 256
NONE_IS_FREE = -1

_REQUEST = struct.Struct(f"<qqq{COUNT // 8}s")
_ANSWER = struct.Struct("<q")
_REQUEST_TAG = 0  # attempts count from 1
_SHORT_SECONDS = 0.1  # an answer that is not taken for so long is perhaps to an earlier request


@dataclass(frozen=True)
class Request:
    """What a member tells the leader.

    `taken` is its latest attempt that was answered, and `latest` the latest serial number that it
    knows of. Bit n of `used` says that place n is in use.
    """

    attempt: int
    taken: int
    latest: int
    used: int

    def pack(self) -> bytes:
        """Return the bytes that are sent."""
        used = self.used.to_bytes(COUNT // 8, "little")
        return _REQUEST.pack(self.attempt, self.taken, self.latest, used)

    @classmethod
    def unpack(cls, data: bytes | bytearray) -> Request | None:
        """Return the request in the bytes, or None if none was received into them."""
        attempt, taken, latest, used = _REQUEST.unpack(data)
        if attempt == 0:
            return None
        return cls(attempt, taken, latest, int.from_bytes(used, "little"))


def place_of(serial: int) -> int:
    """Return which of the COUNT numbers a set has; a set's serial number is never used again."""
    return (serial - 1) % COUNT


def next_serial(latest: int, used: int) -> int:
    """Return the first serial number after the latest one whose place is free.

    So the number of a set is not soon used again.
    """
    for serial in range(latest + 1, latest + 1 + COUNT):
        if not used >> place_of(serial) & 1:
            return serial
    return NONE_IS_FREE


class Agreements:
    """The agreements of this rank in one session of world.init()."""

    def __init__(self) -> None:
        self.session = world.session()
        self._latest = 0  # the latest serial number that this rank knows of
        # By channel: how often this rank has asked, and its latest attempt that was answered.
        self._attempts: dict[str, int] = {}
        self._taken: dict[str, int] = {}
        # By channel and member: what this rank, as a leader, has received and not answered.
        self._unanswered: dict[tuple[str, int], Request] = {}

    def reach(self, members: Sequence[int], used: int, seconds: float) -> int:
        """Return the serial number of a new set of these members, or NONE_IS_FREE.

        `members` are ascending. `seconds` > 0 limits the wait for the others.
        """
        channel = f"mpi_bridge.private_sets.{_digest(members)}"
        deadline = time.monotonic() + seconds if seconds > 0 else None
        if world.rank() == members[0]:
            return self._lead(channel, members[1:], used, deadline)
        return self._ask(channel, members[0], used, deadline)

    def _ask(self, channel: str, leader: int, used: int, deadline: float | None) -> int:
        attempt = self._attempts[channel] = self._attempts.get(channel, 0) + 1
        request = Request(attempt, self._taken.get(channel, 0), self._latest, used)
        # The leader may take the request long after this attempt, so nothing waits for that.
        asked = messages.send(request.pack(), leader, channel, _REQUEST_TAG)
        try:
            answer = _receive(_ANSWER.size, leader, channel, attempt, deadline)
        finally:
            _let_go(asked)
        (serial,) = _ANSWER.unpack(answer)
        if serial == 0:
            raise _absent(leader)
        self._taken[channel] = attempt
        self._latest = max(self._latest, serial)
        return serial

    def _lead(self, channel: str, others: Sequence[int], used: int, deadline: float | None) -> int:
        latest = self._latest
        for member in others:
            request = self._request_of(channel, member, deadline)
            latest, used = max(latest, request.latest), used | request.used
        serial = next_serial(latest, used)
        self._latest = max(latest, serial)
        for member in others:
            self._answer(channel, member, serial, deadline)
        return serial

    def _request_of(self, channel: str, member: int, deadline: float | None) -> Request:
        """Return a request of the member, which stays unanswered."""
        place = (channel, member)
        known = self._unanswered.get(place)
        # An earlier attempt of this rank has left it, and the member may have asked again.
        found = _next_request(channel, member, deadline if known is None else time.monotonic())
        if found is None and known is None:
            raise _absent(member)
        self._unanswered[place] = found or known
        return self._unanswered[place]

    def _answer(self, channel: str, member: int, serial: int, deadline: float | None) -> None:
        """Answer the member's request, or the one after it if the member has given that up."""
        place = (channel, member)
        while True:
            request = self._unanswered[place]
            answer = messages.send(_ANSWER.pack(serial), member, channel, request.attempt)
            try:
                is_taken, newer = _until_taken(answer, channel, member, deadline)
            finally:
                _let_go(answer)
            if newer is not None:
                # If the answer was taken, this one is for the next set of the same members.
                self._unanswered[place] = newer
                is_taken = is_taken or newer.taken == request.attempt
            elif is_taken:
                del self._unanswered[place]
            else:
                raise _absent(member)
            if is_taken:
                return


def _until_taken(
    answer: Message, channel: str, member: int, deadline: float | None
) -> tuple[bool, Request | None]:
    """Wait until the member takes the answer or sends another request; tell what has happened."""
    is_taken, newer = _is_done(answer, _SHORT_SECONDS, deadline), None
    while not is_taken and newer is None and not _is_over(deadline):
        newer = _next_request(channel, member, time.monotonic())
        is_taken = _is_done(answer, _SHORT_SECONDS, deadline)
    return is_taken, newer


def _next_request(channel: str, member: int, deadline: float | None) -> Request | None:
    data = _receive(_REQUEST.size, member, channel, _REQUEST_TAG, deadline)
    return Request.unpack(data)


def _receive(size: int, source: int, channel: str, tag: int, deadline: float | None) -> bytearray:
    """Return what was received, or zeros if nothing came in time."""
    data = bytearray(size)
    message = messages.receive(data, source, channel, tag)
    try:
        _is_done(message, None, deadline)
    finally:
        # This withdraws it, unless the message has come meanwhile.
        message.release()
    return data


def _is_done(message: Message, seconds: float | None, deadline: float | None) -> bool:
    """Wait for so long, and not beyond the deadline; tell whether the message is done."""
    limits = [] if seconds is None else [seconds]
    if deadline is not None:
        limits.append(max(deadline - time.monotonic(), 0.001))
    try:
        message.wait(min(limits, default=0))
    except CollectiveTimeoutError:
        if not message.poll():
            return False
        message.wait()
    return True


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _let_go(message: Message) -> None:
    """Release a send that is done, and leave any other behind."""
    if message.poll():
        message.release()
    else:
        message.leave_behind()


def _absent(rank: int) -> CollectiveTimeoutError:
    return CollectiveTimeoutError(
        f"rank {rank} did not come to make the process set in time; all members have to"
    )


def _digest(members: Sequence[int]) -> str:
    return hashlib.sha256(repr(list(members)).encode()).hexdigest()
