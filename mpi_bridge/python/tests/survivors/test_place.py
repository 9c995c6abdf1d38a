# SPDX-License-Identifier: Apache-2.0
"""The place where ranks meet after a loss, and who is let in.

Breaks when a stranger gets in or keeps ranks out, or when a rank that lives is given up.
"""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import types

import pytest

from mpi_bridge.survivors import address as addresses_of_places
from mpi_bridge.survivors import place
from mpi_bridge.survivors.frames import SECRET_BYTES, Frames, StrangerError, pack, unpack

SECRET = os.urandom(SECRET_BYTES)


@pytest.fixture(params=["", "127.0.0.1"])
def places(request):
    made = [place.Place(rank, request.param, f"host{rank}", agree) for rank in range(3)]
    addresses = {rank: each.address for rank, each in enumerate(made)}
    for each in made:
        each.begin(SECRET, addresses)
    yield made
    for each in made:
        each.close()


# A process with the place of a rank, which says where that is. With "fork" it has a child.
OTHER_PROCESS = """
import os, signal, sys
from mpi_bridge.survivors.place import Place

rank, name, host, secret, fork = sys.argv[1:]
place = Place(int(rank), name, host, lambda *_: "")
place.begin(bytes.fromhex(secret), {int(rank): place.address})
guest = place.visit(int(rank))
child = 0
if fork:
    ended, forked = os.pipe()
    child = os.fork()
    os.close(forked)
    if not child:
        os.close(1)
        signal.pause()
    os.read(ended, 1)  # The child has closed what it must not keep.
print(child, place.address.name, place.address.port, flush=True)
signal.pause()
"""


@contextlib.contextmanager
def other_process(rank, name, host, fork=""):
    """Give a process that has the place of a rank, and the address of that."""
    command = [sys.executable, "-c", OTHER_PROCESS, str(rank), name, host, SECRET.hex(), fork]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    child = 0
    try:
        words = process.stdout.readline().split()
        child = int(words[0])
        yield process, addresses_of_places.Address(host, words[1], int(words[2]))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        if child:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("name", ["", "127.0.0.1"])
def test_a_child_of_a_dead_rank_does_not_make_it_live(name):
    with other_process(0, name, "host0", "fork") as (process, address):
        address.connect().close()
        process.kill()
        process.wait()
        with pytest.raises(ConnectionRefusedError):
            address.connect()


def agree(_lost, _here, _is_still_so):
    return ""


def meet(places, at, ranks):
    """Let ranks come to a place; return what each is answered."""
    guests = {rank: places[rank].visit(at) for rank in ranks}
    for rank, guest in guests.items():
        guest.send(str(rank).encode())
    return guests


def answers(guests):
    return [guest.receive(60) for guest in guests.values()]


def test_pieces_are_kept_apart():
    for pieces in ([], [b""], [b"a", b"", b"bc" * 1000]):
        assert unpack(pack(pieces)) == pieces


def test_all_meet_and_exchange(places):
    guests = meet(places, 0, [2, 0, 1])
    assert answers(guests) == [b'{"goOn": [0, 1, 2]}'] * 3
    for rank, guest in guests.items():
        guest.send(place.EXCHANGE + b"from %d" % rank)
    assert {tuple(unpack(each)) for each in answers(guests)} == {(b"from 0", b"from 1", b"from 2")}
    for guest in guests.values():
        guest.send(place.DONE)
    answers(guests)


def test_the_lowest_rank_that_lives_leads(places):
    assert answers(meet(places, 1, [1, 2])) == [b'{"elsewhere": true}'] * 2
    places[0].close()
    guests = meet(places, 1, [1, 2])
    assert answers(guests) == [b'{"goOn": [1, 2]}'] * 2


def test_a_rank_that_lives_is_waited_for(places):
    guests = meet(places, 0, [0, 1])
    with pytest.raises(TimeoutError):
        guests[0].receive(1)
    guests.update(meet(places, 0, [2]))
    assert answers(guests) == [b'{"goOn": [0, 1, 2]}'] * 3


def test_who_is_left_out_hears_of_it(places):
    places[0].now_are([0, 1])
    (late,) = answers(meet(places, 0, [2]))
    assert late == b'{"leftOut": true}'


@pytest.mark.parametrize("secret", [b"", os.urandom(SECRET_BYTES)])
def test_a_stranger_is_not_let_in(places, secret):
    stranger = places[0].address.connect()
    with pytest.raises(OSError, match=r"secret|ended"):
        stranger.prove_as_guest(secret)
    with pytest.raises(OSError, match="ended"):
        stranger.receive(5)


def test_a_false_host_learns_nothing(places):
    """Not even a proof that it could show to the true host."""
    ours, theirs = socket.socketpair()
    told = []

    def relay():
        with places[0].address.connect() as true_host:
            theirs.sendall(true_host._read(32, None))
            told.append(theirs.recv(64))
        theirs.close()

    thread = threading.Thread(target=relay)
    thread.start()
    with pytest.raises(ConnectionError):
        Frames(ours).prove_as_guest(SECRET)
    thread.join()
    assert len(told) == 1
    assert SECRET not in told[0]


def test_silent_strangers_keep_nobody_out(places):
    strangers = [places[0].address.connect() for _ in range(20)]
    places[1].close()
    places[2].close()
    assert answers(meet(places, 0, [0])) == [b'{"goOn": [0]}']
    for stranger in strangers:
        stranger.close()


def test_consent_is_asked_with_who_is_lost(places):
    asked = []

    def refuse(lost, here, is_still_so):
        asked.append((lost, here, is_still_so()))
        return "for a test"

    places[0]._consent = refuse
    places[1].close()
    assert answers(meet(places, 0, [0, 2])) == [b'{"refused": "for a test"}'] * 2
    assert asked == [([1], [0, 2], True)]


def test_a_stopped_rank_does_not_hide_the_others_of_its_host(places):
    name = places[1].address.name if places[1].address.port else ""
    with other_process(0, name, "host1") as (process, address):
        os.kill(process.pid, signal.SIGSTOP)
        places[2]._addresses = {**places[2]._addresses, 0: address}
        assert places[2].try_to_visit(0) is None
        guest = places[2].try_to_visit(1)
        assert guest is not None
        guest.close()


def test_a_host_is_silent_after_two_tries_and_three_seconds(monkeypatch):
    now = [10.0]
    clock = types.SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(addresses_of_places, "time", clock)
    silence = addresses_of_places.Silence()
    silence.note("a", 10.0)
    now[0] = 14.0
    assert not silence.is_of("a")
    silence.note("a", 12.5)
    assert silence.is_of("a")
    assert not silence.is_of("b")
    silence.end("a")
    silence.note("a", 13.0)
    silence.note("a", 13.5)
    assert not silence.is_of("a")


def test_a_full_queue_is_no_silence():
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind("\0mpi_bridge-test-" + os.urandom(8).hex())
        listener.listen(0)
        address = addresses_of_places.Address("host0", listener.getsockname()[1:].decode(), 0)
        with address.connect(), pytest.raises(BlockingIOError):
            address.connect()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_a_stranger(places):
    if places[0].address.port:
        pytest.skip("other hosts do not tell which user connects")
    name = "mpi_bridge-test-" + os.urandom(8).hex()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setuid(65534)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind("\0" + name)
        listener.listen()
        guest = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        guest.connect("\0" + places[0].address.name)
        os.write(writing, b"nothing" if guest.recv(1) == b"" else b"something")
        signal.pause()
    try:
        assert os.read(reading, 100) == b"nothing"
        with pytest.raises(StrangerError, match="user"):
            addresses_of_places.Address("host0", name, 0).connect()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_who_proves_wrongly_at_the_place_of_a_rank_shows_that_it_is_lost(places):
    def prove_wrongly():
        connection, _ = listener.accept()
        with connection:
            connection.sendall(bytes(32))
            connection.recv(1 << 10)
            connection.sendall(bytes(32))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=prove_wrongly)
        thread.start()
        places[0]._addresses = dict(places[0]._addresses)
        places[0]._addresses[1] = addresses_of_places.Address(
            "host1", "127.0.0.1", listener.getsockname()[1]
        )
        places[2].close()
        assert answers(meet(places, 0, [0])) == [b'{"goOn": [0]}']
        thread.join()


def test_a_consent_that_fails_refuses(places):
    """So does the next one: the place still leads."""

    def fail(_lost, _here, _is_still_so):
        raise OSError("the disk is full, for a test")

    places[0]._consent = fail
    places[1].close()
    for _ in range(2):
        for answer in answers(meet(places, 0, [0, 2])):
            assert answer == b'{"refused": "nobody can be asked: the disk is full, for a test"}'


def test_descriptors_may_be_many(places):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("this process may not have so many")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert answers(meet(places, 0, [0, 1, 2])) == [b'{"goOn": [0, 1, 2]}'] * 3
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("stopped", [0, 2])
def test_a_stopped_rank_is_not_waited_for_without_end(places, stopped, monkeypatch):
    monkeypatch.setattr(place, "SECONDS_TO_GATHER", 2.0)
    name = places[1].address.name if places[1].address.port else ""
    with other_process(stopped, name, f"host{stopped}") as (process, address):
        os.kill(process.pid, signal.SIGSTOP)
        for each in places:
            each._addresses = {**each._addresses, stopped: address}
        here = [rank for rank in range(3) if rank != stopped]
        for answer in answers(meet(places, here[0], here)):
            assert answer == b'{"refused": "ranks [%d] have not come within 2 s"}' % stopped
