# SPDX-License-Identifier: GPL-2.0-or-later
"""The few system calls that Python 3.11 does not offer: namespaces and mounts."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOEXEC = 8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_UNBINDABLE = 0x20000
MS_PRIVATE = 0x40000
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor: int, what: str) -> None:
    _check(_libc.setns(descriptor, 0), f"setns {what}")


def mount(
    source: str | None, target: str, kind: str | None, flags: int = 0, data: str | None = None
) -> None:
    """mount(2); arguments as there."""
    result = _libc.mount(
        _bytes(source), _bytes(target), _bytes(kind), ctypes.c_ulong(flags), _bytes(data)
    )
    _check(result, f"mount {kind or source} on {target}")


def bind(source: str, target: str) -> None:
    """Shows `source`, with everything mounted below it, at `target` too."""
    mount(source, target, None, MS_BIND | MS_REC)


def unmount_lazily(target: str) -> None:
    _check(_libc.umount2(_bytes(target), MNT_DETACH), f"unmount {target}")


def make_root(directory: str) -> None:
    """Makes the mount at `directory` this mount namespace's root and lets go of the old one."""
    os.chdir(directory)
    _check(_libc.pivot_root(b".", b"."), f"pivot_root to {directory}")
    unmount_lazily(".")
    os.chdir("/")


def end_with_parent(signal_number: int) -> None:
    """This process gets the signal when its parent ends. Forgotten when the user id changes."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl")
