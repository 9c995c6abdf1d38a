# SPDX-License-Identifier: Apache-2.0
"""The ranks that have begun together, as far as they are left."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time

from .. import objects, this_host, world
from ..errors import MpiBridgeError, PeerLostError
from . import frames, place
from .frames import Frames
from .place import Consent, Place

_SECONDS_TO_FIND_A_LEADER = 60.0
# Longer than any place that leads takes, unless its process is stopped.
_SECONDS_FOR_THE_ANSWER = place.SECONDS_TO_GATHER + place.SECONDS_TO_CONSENT + 10.0
_SECONDS_BETWEEN_TRIES = 0.05
_MOST_TRIES = 5


class Members:
    """Ranks keep the numbers here that they have when this is made. Collective over all ranks."""

    def __init__(self, consent: Consent) -> None:
        self._rank = world.rank()
        on_one_host = world.local_size() == world.size()
        name = "" if on_one_host else this_host.own_address()
        self._place = Place(self._rank, name, socket.gethostname(), consent)
        secret = os.urandom(frames.SECRET_BYTES) if self._rank == 0 else b""
        secret = objects.broadcast_object(secret)
        addresses = objects.allgather_object(self._place.address)
        self._place.begin(secret, dict(enumerate(addresses)))

    def close(self) -> None:
        """Meet nobody any more."""
        self._place.close()

    def ranks(self) -> list[int]:
        """Return the ranks that are left, as far as this one knows, by their first numbers."""
        return self._place.members()

    def rejoin(self) -> list[int]:
        """Leave the session, and begin another one with the ranks that are left.

        Collective over these, after an error that they all get. Returns those that are lost, by
        their first numbers. PeerLostError says that the ranks must not go on.
        """
        before = self._place.members()
        self._place.forget_silence()
        for last_try in (*[False] * (_MOST_TRIES - 1), True):
            world.shutdown()
            guest, members = self._meet()
            with guest:
                try:
                    self._join(guest, members)
                    break
                except (OSError, MpiBridgeError):
                    # One more may be lost. Nobody has been told to go on, so all meet again.
                    if last_try:
                        raise
        self._place.now_are(members)
        return sorted(set(before) - set(members))

    def _join(self, guest: Frames, members: list[int]) -> None:
        def exchange(data: bytes, seconds: float) -> list[bytes]:
            guest.send(place.EXCHANGE + data)
            return frames.unpack(guest.receive(seconds))

        world.join_through(exchange, members.index(self._rank), len(members))
        guest.send(place.DONE)
        # The leader waits so long for another rank, and ends the connection then.
        guest.receive(2 * place.SECONDS_TO_JOIN)

    def _meet(self) -> tuple[Frames, list[int]]:
        """Return a connection to the place that leads, and the ranks that are there."""
        end = time.monotonic() + _SECONDS_TO_FIND_A_LEADER
        while time.monotonic() < end:
            for rank in self._place.members():
                guest = self._place.try_to_visit(rank)
                if guest is None:
                    continue
                answer = self._ask(guest)
                if place.GO_ON in answer:
                    return guest, answer[place.GO_ON]
                guest.close()
                if place.LEFT_OUT in answer:
                    raise PeerLostError("the other ranks have gone on without this one")
                if place.REFUSED in answer:
                    raise PeerLostError(f"the ranks do not go on: {answer[place.REFUSED]}")
                break
            time.sleep(_SECONDS_BETWEEN_TRIES)
        raise PeerLostError("no rank is found where those that are left meet")

    def _ask(self, guest: Frames) -> dict[str, list[int] | str]:
        with contextlib.suppress(OSError, ValueError):
            guest.send(str(self._rank).encode())
            return json.loads(guest.receive(_SECONDS_FOR_THE_ANSWER))
        return {}
