# SPDX-License-Identifier: Apache-2.0
"""What two ranks tell each other over a connection that strangers can make, too.

Both sides prove that they know the job's secret, without sending it, before anything else is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import socket
import struct
import time
import weakref
from collections.abc import Sequence
from types import TracebackType

SECRET_BYTES = 32

_NONCE_BYTES = 32
_PROOF_BYTES = hashlib.sha256().digest_size
_SECONDS_TO_PROVE = 5.0
_LENGTH = struct.Struct("<I")
_LONGEST = 1 << 28
# A host without power breaks no connection.
_SILENCE = (
    (socket.TCP_KEEPIDLE, 1),
    (socket.TCP_KEEPINTVL, 1),
    (socket.TCP_KEEPCNT, 4),
    (socket.TCP_USER_TIMEOUT, 5000),  # milliseconds
)

# What a forked child must not keep: with a listener or a connection of a dead rank, its child would
# make it seem to live.
_not_for_children: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def keep_from_children(connection: socket.socket) -> None:
    """Close a socket in processes that this one forks from now on."""
    _not_for_children.add(connection)


def _close_in_child() -> None:
    for connection in list(_not_for_children):
        with contextlib.suppress(OSError):
            connection.close()


os.register_at_fork(after_in_child=_close_in_child)


class StrangerError(ConnectionError):
    """The other side is no rank of the job."""


class Frames:
    """Sends and receives pieces of bytes. ConnectionError or TimeoutError tells of a failure."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        keep_from_children(connection)
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _SILENCE:
                connection.setsockopt(socket.IPPROTO_TCP, option, value)

    def __enter__(self) -> Frames:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; a second call does nothing."""
        self._connection.close()

    def fileno(self) -> int:
        """Return the descriptor, for select()."""
        return self._connection.fileno()

    def send(self, data: bytes) -> None:
        """Send one piece."""
        self._connection.settimeout(None)
        with _as_connection_error():
            self._connection.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self, seconds: float | None = None) -> bytes:
        """Return the next piece; wait no longer than `seconds`, if they are given."""
        end = None if seconds is None else time.monotonic() + seconds
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size, end))
        if length > _LONGEST:
            raise ConnectionError(f"a piece of {length} bytes is announced")
        return self._read(length, end)

    def prove_as_guest(self, secret: bytes, seconds: float = _SECONDS_TO_PROVE) -> None:
        """Do the part of the side that has connected. StrangerError tells of a wrong proof."""
        end = time.monotonic() + seconds
        theirs = self._read(_NONCE_BYTES, end)
        own = os.urandom(_NONCE_BYTES)
        with _as_connection_error():
            self._connection.sendall(own + _proof(secret, b"guest", theirs, own))
        self._check(self._read(_PROOF_BYTES, end), _proof(secret, b"host", own, theirs))

    def prove_as_host(self, secret: bytes) -> None:
        """Do the part of the side that has accepted the connection."""
        end = time.monotonic() + _SECONDS_TO_PROVE
        own = os.urandom(_NONCE_BYTES)
        with _as_connection_error():
            self._connection.sendall(own)
        answer = self._read(_NONCE_BYTES + _PROOF_BYTES, end)
        theirs = answer[:_NONCE_BYTES]
        self._check(answer[_NONCE_BYTES:], _proof(secret, b"guest", own, theirs))
        with _as_connection_error():
            self._connection.sendall(_proof(secret, b"host", theirs, own))

    @staticmethod
    def _check(given: bytes, expected: bytes) -> None:
        if not hmac.compare_digest(given, expected):
            raise StrangerError("the other side does not know the job's secret")

    def _read(self, size: int, end: float | None) -> bytes:
        data = bytearray()
        while len(data) < size:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError("the other side does not answer")
            self._connection.settimeout(left)
            with _as_connection_error():
                part = self._connection.recv(min(size - len(data), 1 << 20))
            if not part:
                raise ConnectionError("the other side has ended the connection")
            data += part
        return bytes(data)


def pack(pieces: Sequence[bytes]) -> bytes:
    """Return one piece that has them all."""
    return b"".join(_LENGTH.pack(len(piece)) + piece for piece in pieces)


def unpack(data: bytes) -> list[bytes]:
    """Return what pack() was given."""
    pieces, at = [], 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        pieces.append(data[at : at + length])
        at += length
    return pieces


def _proof(secret: bytes, side: bytes, *nonces: bytes) -> bytes:
    return hmac.digest(secret, b"mpi_bridge survivors " + side + b"".join(nonces), "sha256")


@contextlib.contextmanager
def _as_connection_error():  # noqa: ANN202 - a context manager
    try:
        yield
    except (ConnectionError, TimeoutError):
        raise
    # Before Python 3.10 this is another class than TimeoutError.
    except socket.timeout as error:
        raise TimeoutError("the other side does not answer") from error
    except OSError as error:
        raise ConnectionError(str(error)) from error
