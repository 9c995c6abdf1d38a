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

from . import native
from .buffer import buffer_of, writable_buffer_of
from .errors import CollectiveTimeoutError
from .in_flight import InFlight
from .structures import MessageStruct

ANY_RANK = -1
"""For a receive: from whichever rank sends first."""

_SLICE_SECONDS = 0.5  # how long a wait lasts between two checks for signals
_NO_LIMIT = 0.0
_SEND, _RECEIVE = "mpib_message_send", "mpib_message_receive"


class Message(InFlight):
    """A message in flight. Its buffer is kept until release().

    A message that is no longer referred to is released. If it is a send that nobody receives, this
    waits, so such a message must be given to leave_behind() instead.
    """

    __slots__ = ("_is_send",)

    _prefix = "mpib_message"
    _what = "message"

    def __init__(self, number: int, kept: Any, is_send: bool) -> None:
        super().__init__(number, kept)
        self._is_send = is_send

    def poll(self) -> bool:
        """Tell whether the message is done, successfully or not."""
        return native.functions().mpib_message_poll(self._live_number()) != 0

    def wait(self, seconds: float = 0.0) -> None:
        """Wait until the message is done; raise its error if it failed.

        `seconds` > 0 limits the wait: then CollectiveTimeoutError is raised, and the message goes
        on.
        """
        self._wait(seconds)

    wait_only = wait

    def _wait(self, seconds: float) -> None:
        number = self._live_number()
        left = seconds if seconds > 0 else math.inf
        while True:
            try:
                super()._wait(min(left, _SLICE_SECONDS))
                return
            except CollectiveTimeoutError:
                left -= _SLICE_SECONDS
                # If the end has come since the slice was over, this error does not tell of it.
                is_done = native.functions().mpib_message_poll(number) != 0
                if not is_done and left <= 0:
                    raise
            if is_done:
                super()._wait(_NO_LIMIT)
                return

    def peer(self) -> int:
        """Return the other rank; ANY_RANK while a receive from any rank waits."""
        return native.functions().mpib_message_peer(self._live_number())

    def release(self) -> None:
        """Release the buffer. Withdraws a receive that waits, and waits for any other message."""
        super().release()

    def leave_behind(self) -> None:
        """Keep a send that perhaps nobody receives until it is done.

        A receive is released.
        """
        if self._is_send:
            super().leave_behind()
        else:
            self.release()


def _post(
    function: str, peer: int, address: int, nbytes: int, kept: Any, channel: bytes, tag: int
) -> Message:
    message = MessageStruct(
        ctypes.sizeof(MessageStruct), peer, channel, tag, address or None, nbytes
    )
    number = ctypes.c_int64()
    native.call(function, ctypes.byref(message), ctypes.byref(number))
    return Message(number.value, kept, function == _SEND)


def send(data: Any, to: int, channel: str = "", tag: int = 0) -> Message:
    """Send a buffer, which must not change until done, to a rank of the job. Returns at once."""
    buffer = buffer_of(data)
    return _post(_SEND, to, buffer.address, buffer.nbytes, buffer, channel.encode(), tag)


def receive(target: Any, source: int = ANY_RANK, channel: str = "", tag: int = 0) -> Message:
    """Receive from a rank of the job into a buffer of the same length. Returns at once."""
    buffer = writable_buffer_of(target)
    return _post(_RECEIVE, source, buffer.address, buffer.nbytes, buffer, channel.encode(), tag)


# The same for a contiguous torch tensor on the host. To find out what a buffer is takes as long as
# to send a short one.


def _post_tensor(function: str, peer: int, tensor: Any, channel: bytes, tag: int) -> Message:
    # The program may give its tensor other memory (`tensor.data = ...`) while the message is under
    # way. What detach() returns keeps the memory that it has now.
    kept = tensor.detach()
    nbytes = kept.numel() * kept.element_size()
    return _post(function, peer, kept.data_ptr(), nbytes, kept, channel, tag)


def send_tensor(tensor: Any, to: int, channel: bytes, tag: int) -> Message:
    """Send a tensor's bytes, which must not change until done. Returns at once."""
    return _post_tensor(_SEND, to, tensor, channel, tag)


def receive_tensor(tensor: Any, source: int, channel: bytes, tag: int) -> Message:
    """Receive a tensor's bytes from a rank of the job. Returns at once."""
    return _post_tensor(_RECEIVE, source, tensor, channel, tag)
