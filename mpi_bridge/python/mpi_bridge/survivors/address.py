# SPDX-License-Identifier: Apache-2.0
"""Where the place of a rank is, and whether its host is silent.

A host is silent if it has not answered for a while, and more than once: the first packet may get
lost, and the kernel sends the second one a second later. Whatever else keeps this process from
connecting, such as a full queue of the other side, says nothing about the host.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import struct
import time
from dataclasses import dataclass

from . import frames
from .frames import Frames

_SECONDS_TO_CONNECT = 1.5
_SECONDS_OF_SILENCE = 3.0
_TRIES_OF_SILENCE = 2
_MOST_THAT_WAIT = 64
_ERRORS_OF_SILENCE = {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH}
_CREDENTIALS = struct.Struct("iII")  # the process, its user and its group


class SilentHostError(OSError):
    """The host of a place has not answered."""


@dataclass(frozen=True)
class Address:
    """Where the place of a rank is. Without a port it is a name of a socket of the same host."""

    host: str
    name: str
    port: int

    def connect(self, seconds: float = _SECONDS_TO_CONNECT) -> Frames:
        """Connect to the place, without proof.

        ConnectionRefusedError and StrangerError tell that the rank is lost, SilentHostError that
        its host may be, and other errors nothing about it.
        """
        if self.port:
            return Frames(self._connect_to_host(seconds))
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(seconds)
            connection.connect("\0" + self.name)
            if not is_of_own_user(connection):
                raise frames.StrangerError("another user's process has the name of a rank's place")
        except BaseException:
            connection.close()
            raise
        return Frames(connection)

    def _connect_to_host(self, seconds: float) -> socket.socket:
        try:
            return socket.create_connection((self.name, self.port), seconds)
        # Before Python 3.10 this is another class than TimeoutError.
        except socket.timeout as error:
            raise SilentHostError(f"{self.host} does not answer") from error
        except OSError as error:
            # Those of getaddrinfo() have numbers of their own.
            if not isinstance(error, socket.gaierror) and error.errno in _ERRORS_OF_SILENCE:
                raise SilentHostError(f"{self.host} does not answer: {error}") from error
            raise


class Silence:
    """Which hosts are silent."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[float, int]] = {}  # when the first try began; how many

    def note(self, host: str, begin: float) -> None:
        """Note that a try that began then has had no answer."""
        since, tries = self._since.get(host, (begin, 0))
        self._since[host] = since, tries + 1

    def end(self, host: str) -> None:
        """Note that a host has answered."""
        self._since.pop(host, None)

    def clear(self) -> None:
        """Forget all hosts."""
        self._since.clear()

    def is_of(self, host: str) -> bool:
        """Tell whether a host is silent."""
        since, tries = self._since.get(host, (0.0, 0))
        return tries >= _TRIES_OF_SILENCE and time.monotonic() - since >= _SECONDS_OF_SILENCE


def is_of_own_user(connection: socket.socket) -> bool:
    """Tell whether no other user has the other side; known only of a socket of the same host."""
    if connection.family != socket.AF_UNIX:
        return True
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(data)
    return user == os.geteuid()


def listen(host: str, name: str) -> tuple[socket.socket, Address]:
    """Listen at an address of the host or, without a name, where only this host can connect."""
    if name:
        family, kind, protocol, _, address = socket.getaddrinfo(
            name, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.bind(address)
        port = listener.getsockname()[1]
    else:
        listener, port = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), 0
        name = f"mpi_bridge-survivors-{secrets.token_hex(16)}"
        listener.bind("\0" + name)
    frames.keep_from_children(listener)
    listener.listen(_MOST_THAT_WAIT)
    return listener, Address(host, name, port)
