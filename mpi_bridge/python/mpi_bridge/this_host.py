# SPDX-License-Identifier: Apache-2.0
"""Where other hosts reach this one."""

from __future__ import annotations

import socket

from . import world


def own_address() -> str:
    """Return an address or a name of this host for all ranks of the job step."""
    if world.local_size() == world.size():
        return "127.0.0.1"
    name = socket.gethostname()
    # If this host resolves its name to its loopback only, the other hosts may still know the name.
    found = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
    addresses = [entry[4][0] for entry in found if not entry[4][0].startswith("127.")]
    return addresses[0] if addresses else name
