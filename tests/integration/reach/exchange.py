# SPDX-License-Identifier: GPL-2.0-or-later
"""Exchanges bytes with serve.py: PORT MEBIBYTES CONNECTIONS, half of which send and half receive.

Prints the throughput. Ends with an error if a byte is not what it should be.
"""

import hashlib
import random
import socket
import sys
import threading
import time


def expected(count: int) -> "hashlib._Hash":
    """Digest of what serve.py sends for a count."""
    block = random.Random(count).randbytes(1 << 20)
    digest = hashlib.sha256()
    left = count
    while left > 0:
        digest.update(block[:left])
        left -= len(block)
    return digest


def receive(port: int, count: int) -> bool:
    """Has the server send."""
    digest = hashlib.sha256()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"send %d\n" % count)
        while block := connection.recv(1 << 16):
            digest.update(block)
    return digest.digest() == expected(count).digest()


def send(port: int, count: int) -> bool:
    """Has the server take, and tell the digest once this half is closed."""
    block = random.Random(count).randbytes(1 << 20)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"take %d\n" % count)
        left = count
        while left > 0:
            connection.sendall(block[:left])
            left -= len(block)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.makefile("rb").read()
    return answer.decode() == expected(count).hexdigest()


def main() -> int:
    """Runs all connections at the same time."""
    port, mebibytes, connections = (int(word) for word in sys.argv[1:4])
    good: list[bool] = []
    threads = [
        threading.Thread(
            target=lambda i=i: good.append(
                (send if i % 2 == 0 else receive)(port, (mebibytes << 20) + i)
            )
        )
        for i in range(connections)
    ]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    print(f"{mebibytes * connections / seconds:.0f} MiB/s")
    return 0 if good == [True] * connections else 1


if __name__ == "__main__":
    sys.exit(main())
