# SPDX-License-Identifier: GPL-2.0-or-later
"""Takes POST requests and writes each body to a file: listener.py PORT_FILE DIRECTORY [CERT KEY].

A request for a path that begins with /moved is answered with a redirection to /elsewhere, and one
for /refused with status 500.
"""

from __future__ import annotations

import os
import ssl
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

PORT_FILE, DIRECTORY = Path(sys.argv[1]), Path(sys.argv[2])


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    def do_POST(self) -> None:
        """Write the body to a file that is named after the path, and say so."""
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        name = self.path.strip("/").split("/")[0]
        with (DIRECTORY / name).open("ab") as file:
            file.write(body)
        if name == "moved":
            self.send_response(307)
            self.send_header("Location", "/elsewhere")
        else:
            self.send_response(500 if name == "refused" else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


server = HTTPServer(("0.0.0.0", 0), Handler)
if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3], sys.argv[4])
    server.socket = context.wrap_socket(server.socket, server_side=True)
PORT_FILE.with_suffix(".pid").write_text(str(os.getpid()))
PORT_FILE.with_suffix(".new").write_text(str(server.server_port))
PORT_FILE.with_suffix(".new").rename(PORT_FILE)
server.serve_forever()
