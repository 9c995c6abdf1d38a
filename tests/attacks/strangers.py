# SPDX-License-Identifier: GPL-2.0-or-later
"""Connects to every port on this host that another user's processes listen at, over and over.

Usage: strangers.py VICTIM SECONDS RATE [PORT]

Ends after so many seconds, or when SIGTERM comes.

The connections close at once, stay and say nothing, say random bytes, or say a well-formed hello
with a wrong proof, at random. With PORT that port is taken instead of the victim's, and served as
well: what the attack costs the host, whoever is its aim. Prints how many connections were made to
how many ports.
"""

import collections
import os
import pwd
import random
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path

_LISTENING = "0A"
_MOST_KEPT = 400
_MAGIC = 0x6D70696274637002  # TcpHandshake::Hello


def ports_of(victim: str) -> list[tuple[str, int]]:
    """The addresses that the victim's processes listen at."""
    uid = str(pwd.getpwnam(victim).pw_uid)
    found = []
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if fields[3] != _LISTENING or fields[7] != uid:
            continue
        address, port = fields[1].split(":")
        packed = struct.pack("<I", int(address, 16))
        found.append((socket.inet_ntoa(packed), int(port, 16)))
    return found


def serve(port: int) -> None:
    """Accept and close whatever comes."""
    listener = socket.create_server(("0.0.0.0", port), backlog=4096)

    def accept() -> None:
        while True:
            listener.accept()[0].close()

    threading.Thread(target=accept, daemon=True).start()


def hello() -> bytes:
    """What one of four ranks would say to another, but for the proof."""
    caller, callee = random.sample(range(4), 2)
    return struct.pack("<QII", _MAGIC, caller, callee) + os.urandom(64)


def main() -> None:
    """Attack."""
    victim, seconds, rate = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    targets = []
    if len(sys.argv) > 4:
        serve(int(sys.argv[4]))
        targets = [("127.0.0.1", int(sys.argv[4]))]
    made: collections.Counter[int] = collections.Counter()
    kept: collections.deque[socket.socket] = collections.deque()
    recorded = hello()
    told_to_end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told_to_end.set())
    began = time.monotonic()
    next_look = began
    count = 0
    while not told_to_end.is_set() and time.monotonic() < began + seconds:
        if len(sys.argv) <= 4 and time.monotonic() >= next_look:
            targets = ports_of(victim)
            next_look = time.monotonic() + 1
        if not targets:
            time.sleep(0.05)
            continue
        ahead = count / rate - (time.monotonic() - began)
        if ahead > 0:
            time.sleep(ahead)
        target = targets[count % len(targets)]
        count += 1
        one = socket.socket()
        one.settimeout(0.5)
        try:
            one.connect(target)
            made[target[1]] += 1
            kind = random.randrange(4)
            if kind == 1:
                kept.append(one)
                if len(kept) > _MOST_KEPT:
                    kept.popleft().close()
                continue
            if kind == 2:
                one.send(os.urandom(random.randrange(1, 400)))
            elif kind == 3:
                one.send(recorded if random.random() < 0.5 else hello())
        except OSError:
            pass
        one.close()
    print(f"strangers: {sum(made.values())} connections to {len(made)} ports", flush=True)


main()
