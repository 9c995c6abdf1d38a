# SPDX-License-Identifier: Apache-2.0
"""Where the ranks that are left meet.

Each rank has such a place from the beginning, so there is one as long as any rank lives. The place
of the lowest rank that lives leads: it waits until each member has come or is lost, tells all who
is there, and hands on what they tell each other to begin a new session. A member is lost if nothing
listens any more where its place was, or if its host does not answer. A process that is stopped or
computes is neither; it is waited for.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import select
import socket
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Callable, Optional

from . import frames
from .frames import Frames

# Gets the lost ranks, those that are there, and a function that tells whether this is still so.
# Returns why the ranks do not go on without the lost ones; "" if they do; None if it is not so any
# more. It may ask a launcher.
Consent = Callable[["list[int]", "list[int]", Callable[[], bool]], Optional[str]]

# What a leader answers, before the names of the ranks that are there.
GO_ON = "goOn"
ELSEWHERE = "elsewhere"  # another place leads
LEFT_OUT = "leftOut"  # the others have gone on without this rank
REFUSED = "refused"  # with the reason

EXCHANGE = b"x"
DONE = b"d"

_SECONDS_TO_CONNECT = 1.0
_SECONDS_BETWEEN_LOOKS = 0.05
_SECONDS_OF_SILENCE = 1.0  # of a host that does not answer
_SECONDS_TO_JOIN = 60.0
_SECONDS_BEFORE_REPORT = 30.0
_MOST_STRANGERS = 64  # that have not proved anything yet


@dataclass(frozen=True)
class Address:
    """Where the place of a rank is. Without a port it is a name of a socket of the same host."""

    host: str
    name: str
    port: int

    def connect(self, seconds: float = _SECONDS_TO_CONNECT) -> Frames:
        """Connect to the place, without proof."""
        if self.port:
            return Frames(socket.create_connection((self.name, self.port), seconds))
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(seconds)
        try:
            connection.connect("\0" + self.name)
        except BaseException:
            connection.close()
            raise
        return Frames(connection)


@dataclass
class _Guest:
    rank: int
    frames: Frames

    def has_left(self) -> bool:
        readable, _, _ = select.select([self.frames], [], [], 0)
        return bool(readable)  # it says nothing before it is answered, so this is the end


class Place:
    """The place of this rank. Its threads end with the process, or with close()."""

    def __init__(self, own: int, name: str, host: str, consent: Consent) -> None:
        self._own = own
        self._consent = consent
        self._listener, self.address = _listen(host, name)
        self._secret = b""
        self._addresses: dict[int, Address] = {}
        self._members: set[int] = set()
        self._lost: set[int] = set()
        self._silent_since: dict[str, float] = {}  # by host
        self._changed = threading.Condition()
        self._guests: list[_Guest] = []
        self._strangers = threading.BoundedSemaphore(_MOST_STRANGERS)
        self._closed = False

    def begin(self, secret: bytes, addresses: dict[int, Address]) -> None:
        """Take in ranks from now on, which are those of `addresses`."""
        self._secret = secret
        self._addresses = addresses
        self._members = set(addresses)
        for task in (self._accept, self._lead):
            threading.Thread(target=task, name="mpi_bridge survivors", daemon=True).start()

    def close(self) -> None:
        """Take in nobody any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def members(self) -> list[int]:
        """Return the ranks that were there at the latest meeting."""
        return sorted(self._members)

    def now_are(self, members: Iterable[int]) -> None:
        """Know that the others are not members any more."""
        self._members = set(members)

    def visit(self, rank: int) -> Frames:
        """Connect to the place of a rank. OSError tells why that is not possible."""
        guest = self._addresses[rank].connect()
        try:
            guest.prove_as_guest(self._secret)
        except BaseException:
            guest.close()
            raise
        return guest

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._closed:
                    return
                time.sleep(_SECONDS_BETWEEN_LOOKS)  # there are no descriptors left, perhaps
                continue
            if not self._strangers.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._admit, args=(connection,), daemon=True).start()

    def _admit(self, connection: socket.socket) -> None:
        guest = Frames(connection)
        try:
            guest.prove_as_host(self._secret)
            # Who only wants to know whether this process lives ends the connection now.
            rank = int(guest.receive(_SECONDS_TO_JOIN))
        except (OSError, ValueError):
            guest.close()
            return
        finally:
            self._strangers.release()
        with self._changed:
            self._guests.append(_Guest(rank, guest))
            self._changed.notify_all()

    def _lead(self) -> None:
        while True:
            with self._changed:
                while not self._guests and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
            guests = self._gather()
            try:
                if guests:
                    self._hand_on(guests)
            except (OSError, ValueError) as error:
                print(f"elastic: the ranks meet again: {error}", file=sys.stderr, flush=True)
            finally:
                for guest in guests:
                    guest.frames.close()

    def _take_guests(self, known: dict[int, _Guest]) -> None:
        """Take in those who have come, and forget those who have left."""
        with self._changed:
            for guest in self._guests:
                if guest.rank not in self._members:
                    _answer([guest], {LEFT_OUT: True})
                    guest.frames.close()
                    continue
                if guest.rank in known:
                    known[guest.rank].frames.close()
                known[guest.rank] = guest
            self._guests.clear()
        for rank in [rank for rank, guest in known.items() if guest.has_left()]:
            known.pop(rank).frames.close()

    def _gather(self) -> list[_Guest]:
        """Return the members that are left, once all have come and may go on."""
        known: dict[int, _Guest] = {}
        self._silent_since.clear()
        begin, reported = time.monotonic(), False
        while True:
            self._take_guests(known)
            if not known:
                return []
            missing = sorted(self._members - set(known))
            living = [rank for rank in missing if not self._is_lost(rank)]
            # The rank of this process may end it once it is answered, and with it this thread.
            guests = [known[rank] for rank in sorted(known, key=lambda rank: rank == self._own)]
            if living and living[0] < self._own:
                _answer(guests, {ELSEWHERE: True})
                return self._send_away(guests)
            if not living:
                why = self._consent(missing, sorted(known), self._nobody_comes) if missing else ""
                if why is None:
                    continue
                if why:
                    _answer(guests, {REFUSED: why})
                    return self._send_away(guests)
                return guests
            if not reported and time.monotonic() - begin > _SECONDS_BEFORE_REPORT:
                reported = True
                print(f"elastic: ranks {living} are waited for", file=sys.stderr, flush=True)
            with self._changed:
                if not self._guests:
                    self._changed.wait(_SECONDS_BETWEEN_LOOKS)

    def _nobody_comes(self) -> bool:
        return not self._guests

    @staticmethod
    def _send_away(guests: list[_Guest]) -> list[_Guest]:
        for guest in guests:
            guest.frames.close()
        return []

    def _is_lost(self, rank: int) -> bool:
        """Tell whether the process of a rank has ended, or its host is silent. It may wait."""
        host = self._addresses[rank].host
        if rank in self._lost or self._is_silent(host):
            return True
        begin = time.monotonic()
        try:
            guest = self._addresses[rank].connect()
        except ConnectionRefusedError:
            self._lost.add(rank)
            return True
        except OSError:
            self._silent_since.setdefault(host, begin)
            return self._is_silent(host)
        self._silent_since.pop(host, None)
        with guest, contextlib.suppress(OSError):
            # A process that does not answer may be stopped. One that has just ended is refused next
            # time, unless a stranger has its place now.
            guest.prove_as_guest(self._secret)
        return False

    def _is_silent(self, host: str) -> bool:
        since = self._silent_since.get(host)
        return since is not None and time.monotonic() - since >= _SECONDS_OF_SILENCE

    def _hand_on(self, guests: list[_Guest]) -> None:
        members = sorted(guest.rank for guest in guests)
        _answer(guests, {GO_ON: members})
        while True:
            pieces = [guest.frames.receive() for guest in guests]
            kinds = {piece[:1] for piece in pieces}
            if kinds not in ({EXCHANGE}, {DONE}):
                raise ValueError("the ranks do different things")
            if kinds == {DONE}:
                self.now_are(members)
            by_rank = sorted(zip((guest.rank for guest in guests), pieces))
            all_pieces = frames.pack([piece[1:] for _, piece in by_rank])
            for guest in guests:
                guest.frames.send(all_pieces)
            if kinds == {DONE}:
                return


def _answer(guests: list[_Guest], answer: dict[str, object]) -> None:
    for guest in guests:
        # Who has left is found missing at the next meeting.
        with contextlib.suppress(OSError):
            guest.frames.send(json.dumps(answer).encode())


def _listen(host: str, name: str) -> tuple[socket.socket, Address]:
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
    listener.listen(_MOST_STRANGERS)
    return listener, Address(host, name, port)
