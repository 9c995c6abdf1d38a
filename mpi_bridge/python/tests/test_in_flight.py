# SPDX-License-Identifier: Apache-2.0
"""Waits and buffers of what is in flight, with a native library that is made up; needs no ranks."""

import types
import weakref

import pytest

from mpi_bridge import CollectiveTimeoutError, MismatchError, native, process_sets, signals, world
from mpi_bridge.engine import Handle
from mpi_bridge.messages import Message

OK, TIMEOUT, MISMATCH, NOT_INITIALIZED = 0, 3, 5, 1


class Buffers(list):
    """A list to which there can be weak references."""


class Library:
    """Answers the first waits with TIMEOUT; says that all is done after `until` waits."""

    def __init__(self, monkeypatch, outcome=OK, until=1, release=OK):
        self.outcome, self.until, self.release, self.waits = outcome, until, release, []
        found = types.SimpleNamespace(
            mpib_last_error=lambda: b"a text",
            mpib_status_name=lambda status: b"MPIB_ERROR",
            mpib_get_result=lambda number, result: OK,
            mpib_init=lambda: OK,
        )
        for kind in ("mpib", "mpib_message"):
            setattr(found, f"{kind}_wait", self.wait)
            setattr(found, f"{kind}_poll", lambda number: int(len(self.waits) >= self.until))
            setattr(found, f"{kind}_release", lambda number: self.release)
        monkeypatch.setattr(native, "functions", lambda: found)

    def wait(self, number, seconds):
        self.waits.append(seconds)
        # It is done only when the slice is over, as far as a wait with a limit can tell.
        return TIMEOUT if seconds > 0 else self.outcome


@pytest.fixture(params=[Handle, Message])
def make(request):
    def made(kept=()):
        arguments = (False,) if request.param is Message else ()
        return request.param(7, kept, *arguments)

    return made


def finish(flight):
    flight.finish() if isinstance(flight, Handle) else flight.wait()


def message():
    return Message(7, (), False)


def test_an_operation_waits_in_one_native_call(monkeypatch):
    Library(monkeypatch)
    calls = []
    monkeypatch.setattr(native, "call", lambda *arguments: calls.append(arguments))
    handle = Handle(7, ())
    handle.wait_only()
    handle.wait_only(1.25)
    assert calls == [("mpib_wait", 7, 0.0), ("mpib_wait", 7, 1.25)]


def test_an_end_just_after_a_slice_is_no_timeout(monkeypatch):
    for until in (1, 3):
        library = Library(monkeypatch, until=until)
        message().wait()
        assert library.waits == [0.5] * until + [0.0]


def test_an_end_just_after_the_limit_is_no_timeout(monkeypatch):
    library = Library(monkeypatch)
    message().wait(0.25)
    assert library.waits == [0.25, 0.0]


def test_the_error_is_that_of_the_end(monkeypatch, make):
    for outcome, error in ((MISMATCH, MismatchError), (TIMEOUT, CollectiveTimeoutError)):
        Library(monkeypatch, outcome)
        with pytest.raises(error):
            make().wait()
        Library(monkeypatch, outcome)
        with pytest.raises(error):
            finish(make())


def test_a_limit_ends_the_wait(monkeypatch):
    library = Library(monkeypatch, until=100)
    with pytest.raises(CollectiveTimeoutError):
        message().wait(1.25)
    assert library.waits == [0.5, 0.5, 0.25]


@pytest.fixture
def session(monkeypatch):
    """The session of the library, which a test can leave; nothing is kept from earlier ones."""
    monkeypatch.setattr(world, "_install_exit_hooks", lambda: None)
    monkeypatch.setattr(signals, "watch", lambda functions: None)
    for name in ("_owner", "_session", "_joined_session"):
        monkeypatch.setattr(world, name, 0)
    monkeypatch.setattr(world, "_kept", [])
    return lambda number: monkeypatch.setattr(world, "_session", number)


@pytest.mark.parametrize("drop", [lambda flight: flight.release(), lambda flight: None])
def test_what_a_library_in_shutdown_uses_is_kept_until_init(monkeypatch, session, make, drop):
    Library(monkeypatch)
    kept = Buffers()
    alive = weakref.ref(kept)
    flight = make(kept)
    del kept
    session(1)
    drop(flight)
    del flight
    assert alive() is not None
    world.init()
    assert alive() is None


def test_what_is_released_in_time_is_not_kept(monkeypatch, session, make):
    Library(monkeypatch)
    kept = Buffers()
    alive = weakref.ref(kept)
    flight = make(kept)
    del kept
    flight.release()
    assert alive() is None


def test_a_release_that_the_library_refuses_keeps_the_buffers(monkeypatch, session, make):
    Library(monkeypatch, release=NOT_INITIALIZED)
    kept = Buffers()
    alive = weakref.ref(kept)
    flight = make(kept)
    del kept, flight
    assert alive() is not None


def test_buffers_of_an_earlier_session_are_dropped_after_init(monkeypatch, session, make):
    Library(monkeypatch)
    kept = Buffers()
    alive = weakref.ref(kept)
    flight = make(kept)
    del kept
    session(1)
    world.init()
    flight.release()
    assert alive() is None


def test_all_process_sets_are_listed(monkeypatch):
    def ids(found, room):
        for place in range(min(room, 512)):
            found[place] = place
        return 512

    monkeypatch.setattr(
        native, "functions", lambda: types.SimpleNamespace(mpib_process_set_ids=ids)
    )
    assert process_sets.ids() == list(range(512))
