# SPDX-License-Identifier: Apache-2.0
"""Where the ranks that are left meet.

Each rank has such a place from the beginning, so there is one as long as any rank lives. The place
of the lowest rank that lives leads: it waits until each member has come or is lost, tells all who
is there, and hands on what they tell each other to begin a new session. A member is lost if nothing
listens any more where its place was, or if its host does not answer. A process that is stopped or
computes is neither; it is waited for, but not without end.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Callable, Optional

from . import frames
from .address import Address, Silence, SilentHostError, is_of_own_user, listen
from .frames import Frames

# Gets the lost ranks, those that are there, and a function that tells whether this is still so.
# Returns why the ranks do not go on without the lost ones; "" if they do; None if it is not so any
# more. It may ask a launcher, and takes SECONDS_TO_CONSENT at most.
Consent = Callable[["list[int]", "list[int]", Callable[[], bool]], Optional[str]]

# What a leader answers. GO_ON comes with the ranks that are there.
GO_ON = "goOn"
ELSEWHERE = "elsewhere"  # another place leads
LEFT_OUT = "leftOut"  # the others have gone on without this rank
REFUSED = "refused"  # with the reason

EXCHANGE = b"x"
DONE = b"d"

SECONDS_TO_GATHER = 60.0
SECONDS_TO_CONSENT = 60.0
_SECONDS_TO_PROVE = 1.0  # for a missing rank, while others wait
_SECONDS_BETWEEN_LOOKS = 0.05
SECONDS_TO_JOIN = 60.0  # for one piece of what the ranks tell each other
_SECONDS_BEFORE_REPORT = 30.0
_MOST_STRANGERS = 64  # that have not proved anything yet


@dataclass
class _Guest:
    rank: int
    frames: Frames

    def has_left(self) -> bool:
        # select() refuses descriptors from 1024 on.
        poll = select.poll()
        poll.register(self.frames, select.POLLIN)
        return bool(poll.poll(0))  # it says nothing before it is answered, so this is the end


class Place:
    """The place of this rank. Its threads end with the process, or with close()."""

    def __init__(self, own: int, name: str, host: str, consent: Consent) -> None:
        self._own = own
        self._consent = consent
        self._listener, self.address = listen(host, name)
        self._secret = b""
        self._addresses: dict[int, Address] = {}
        self._members: set[int] = set()
        self._lost: set[int] = set()
        self._silence = Silence()  # to the thread that leads
        self._silence_to_visitors = Silence()
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

    def try_to_visit(self, rank: int) -> Frames | None:
        """Do the same, unless the host of the rank has been silent. Return None if it fails."""
        host = self._addresses[rank].host
        if self._silence_to_visitors.is_of(host):
            return None
        begin = time.monotonic()
        try:
            return self.visit(rank)
        except SilentHostError:
            self._silence_to_visitors.note(host, begin)
        except OSError:
            # A process that does not prove anything may be stopped; its host may have others.
            self._silence_to_visitors.end(host)
        return None

    def forget_silence(self) -> None:
        """Visit the ranks of all hosts again."""
        self._silence_to_visitors.clear()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._closed:
                    return
                time.sleep(_SECONDS_BETWEEN_LOOKS)  # there are no descriptors left, perhaps
                continue
            if not is_of_own_user(connection) or not self._strangers.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._admit, args=(connection,), daemon=True).start()

    def _admit(self, connection: socket.socket) -> None:
        guest = Frames(connection)
        try:
            guest.prove_as_host(self._secret)
            # Who only wants to know whether this process lives ends the connection now.
            rank = int(guest.receive(SECONDS_TO_JOIN))
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
            known: dict[int, _Guest] = {}
            try:
                guests = self._gather(known)
                if guests:
                    self._hand_on(guests)
            except Exception as error:  # without this thread, guests wait without end
                print(f"elastic: the ranks meet again: {error}", file=sys.stderr, flush=True)
            finally:
                for guest in known.values():
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

    def _gather(self, known: dict[int, _Guest]) -> list[_Guest]:
        """Return the members that are left, once all have come and may go on.

        `known` gets those that have come. Without a result, all have been sent away.
        """
        self._silence.clear()
        begin, reported, looked_at = time.monotonic(), False, -1
        while True:
            self._take_guests(known)
            if not known:
                return []
            # The rank of this process may end it once it is answered, and with it this thread.
            guests = [known[rank] for rank in sorted(known, key=lambda rank: rank == self._own)]
            missing = sorted(self._members - set(known))
            waited_for = [rank for rank in missing if not self._is_lost(rank)]
            if not waited_for:
                why = self._why_not(missing, sorted(known)) if missing else ""
                if why is None:
                    continue
                if why:
                    return self._send_away(guests, {REFUSED: why})
                return guests
            # One at a time, because a look at a rank that is stopped takes a while.
            looked_at = next((rank for rank in waited_for if rank > looked_at), waited_for[0])
            if self._answers(looked_at) and looked_at < self._own:
                return self._send_away(guests, {ELSEWHERE: True})
            if self._is_lost(looked_at):
                continue
            waited = time.monotonic() - begin
            if waited > SECONDS_TO_GATHER:
                why = f"ranks {waited_for} have not come within {SECONDS_TO_GATHER:g} s"
                return self._send_away(guests, {REFUSED: why})
            if not reported and waited > _SECONDS_BEFORE_REPORT:
                reported = True
                print(f"elastic: ranks {waited_for} are waited for", file=sys.stderr, flush=True)
            with self._changed:
                if not self._guests:
                    self._changed.wait(_SECONDS_BETWEEN_LOOKS)

    def _why_not(self, lost: list[int], here: list[int]) -> str | None:
        try:
            return self._consent(lost, here, self._nobody_comes)
        except Exception as error:  # whatever it is, the guests have to know
            return f"nobody can be asked: {error}"

    def _nobody_comes(self) -> bool:
        return not self._guests

    @staticmethod
    def _send_away(guests: list[_Guest], answer: dict[str, object]) -> list[_Guest]:
        _answer(guests, answer)
        for guest in guests:
            guest.frames.close()
        return []

    def _is_lost(self, rank: int) -> bool:
        """Tell whether the process of a rank is known to have ended, or its host to be silent."""
        return rank in self._lost or self._silence.is_of(self._addresses[rank].host)

    def _answers(self, rank: int) -> bool:
        """Look at the place of a rank; tell whether the rank has proved that it is there."""
        address = self._addresses[rank]
        begin = time.monotonic()
        try:
            with address.connect() as guest:
                self._silence.end(address.host)
                guest.prove_as_guest(self._secret, _SECONDS_TO_PROVE)
                return True
        except (ConnectionRefusedError, frames.StrangerError):
            self._lost.add(rank)
        except SilentHostError:
            self._silence.note(address.host, begin)
        except OSError:
            # A process that does not answer may be stopped. One that has just ended is refused next
            # time.
            pass
        return False

    def _hand_on(self, guests: list[_Guest]) -> None:
        members = sorted(guest.rank for guest in guests)
        _answer(guests, {GO_ON: members})
        while True:
            pieces = [guest.frames.receive(SECONDS_TO_JOIN) for guest in guests]
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
