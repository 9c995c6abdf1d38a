# SPDX-License-Identifier: Apache-2.0
"""Messages between two ranks: the functions of mpi_bridge_messages.h.

A message goes to the oldest receive with its channel (any text) and tag. A send is done only when
its receive has been posted. Messages neither wait for collectives nor hold them up. Buffers are
anything that buffer_of() supports in host memory.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

from . import native, world
from .buffer import Buffer, buffer_of, writable_buffer_of
from .errors import CollectiveTimeoutError, InvalidArgumentError
from .structures import MessageStruct

ANY_RANK = -1
"""For a receive: from whichever rank sends first."""

_SLICE_SECONDS = 0.5  # how long a wait lasts between two checks for signals
_SEND, _RECEIVE = "mpib_message_send", "mpib_message_receive"
_left_behind: list[Message] = []


class Message:
    """A message in flight. Its buffer is kept until release().

    A message that is no longer referred to is released. If it is a send that nobody receives, this
    waits, so such a message must be given to leave_behind() instead.
    """

    __slots__ = ("__weakref__", "_is_send", "_kept", "_number", "_session")

    def __init__(self, number: int, kept: Buffer, is_send: bool) -> None:
        self._number = number
        self._is_send = is_send
        self._kept: Buffer | None = kept
        self._session = world.session()

    def _live_number(self) -> int:
        if self._number == 0 or self._session != world.session():
            raise InvalidArgumentError("this message is released, or from before shutdown()")
        return self._number

    def poll(self) -> bool:
        """Tell whether the message is done, successfully or not."""
        return native.functions().mpib_message_poll(self._live_number()) != 0

    def wait(self, seconds: float = 0.0) -> None:
        """Wait until the message is done; raise its error if it failed.

        `seconds` > 0 limits the wait: then CollectiveTimeoutError is raised, and the message goes
        on.
        """
        number = self._live_number()
        left = seconds if seconds > 0 else math.inf
        while True:
            try:
                native.call("mpib_message_wait", number, min(left, _SLICE_SECONDS))
                return
            except CollectiveTimeoutError:
                left -= _SLICE_SECONDS
                # Either this slice of the wait is over or the message itself ran out of time.
                if left <= 0 or native.functions().mpib_message_poll(number) != 0:
                    raise

    def peer(self) -> int:
        """Return the other rank; ANY_RANK while a receive from any rank waits."""
        return native.functions().mpib_message_peer(self._live_number())

    def release(self) -> None:
        """Release the buffer. Withdraws a receive that waits, and waits for any other message."""
        number, self._number = self._number, 0
        if number and self._session == world.session():
            native.call("mpib_message_release", number)
        self._kept = None

    def leave_behind(self) -> None:
        """Keep a send that perhaps nobody receives until the library is shut down.

        A receive is released.
        """
        if not self._is_send:
            self.release()
            return
        _left_behind[:] = [each for each in _left_behind if each._session == world.session()]
        _left_behind.append(self)

    def __del__(self) -> None:
        number, self._number = getattr(self, "_number", 0), 0
        if number and self._session == world.session():
            native.functions().mpib_message_release(number)


def _post(function: str, peer: int, buffer: Buffer, channel: str, tag: int) -> Message:
    message = MessageStruct(
        struct_bytes=ctypes.sizeof(MessageStruct),
        peer=peer,
        channel=channel.encode(),
        tag=tag,
        memory=buffer.address or None,
        bytes=buffer.nbytes,
    )
    number = ctypes.c_int64()
    native.call(function, ctypes.byref(message), ctypes.byref(number))
    return Message(number.value, buffer, function == _SEND)


def send(data: Any, to: int, channel: str = "", tag: int = 0) -> Message:
    """Send a buffer, which must not change until done, to a rank of the job. Returns at once."""
    return _post(_SEND, to, buffer_of(data), channel, tag)


def receive(target: Any, source: int = ANY_RANK, channel: str = "", tag: int = 0) -> Message:
    """Receive from a rank of the job into a buffer of the same length. Returns at once."""
    return _post(_RECEIVE, source, writable_buffer_of(target), channel, tag)
