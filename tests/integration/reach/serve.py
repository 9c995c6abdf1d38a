# SPDX-License-Identifier: GPL-2.0-or-later
"""A server for tests, on 127.0.0.1 at a port of the command line.

A client sends "take N" and N bytes, ends its half of the connection, and gets their SHA-256; or it
sends "send N" and gets N bytes that depend only on N.
"""

import hashlib
import random
import socketserver
import sys


class Handler(socketserver.StreamRequestHandler):
    """One connection."""

    def handle(self) -> None:
        """Does what the first line asks for."""
        word, count = self.rfile.readline().split()
        if word == b"take":
            digest = hashlib.sha256()
            while block := self.rfile.read(1 << 16):
                digest.update(block)
            self.wfile.write(digest.hexdigest().encode())
            return
        block = random.Random(int(count)).randbytes(1 << 20)
        left = int(count)
        while left > 0:
            self.wfile.write(block[:left])
            left -= len(block)


class Server(socketserver.ThreadingTCPServer):
    """Serves connections at the same time."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64


if __name__ == "__main__":
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
