# SPDX-License-Identifier: GPL-2.0-or-later
"""Plays a user at a terminal: ROWS COLUMNS COMMAND…, with a script on standard input.

Each line of the script is "wait TEXT", "send TEXT" with Python's escapes, "resize ROWS COLUMNS",
"touch FILE", or "close", after which there is no terminal any more. What the command prints is
copied to standard output. Exits with the command's code, or with 99 if something does not come
within a minute.
"""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path

DEADLINE = time.monotonic() + 60


def set_size(terminal: int, rows: int, columns: int) -> None:
    """Gives the terminal a size, of which the kernel tells the command."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def read_some(terminal: int) -> bytes:
    """Returns what the command prints next; nothing once it has ended."""
    left = DEADLINE - time.monotonic()
    if left <= 0 or not select.select([terminal], [], [], left)[0]:
        print("\nnothing comes any more", flush=True)
        os._exit(99)
    try:
        chunk = os.read(terminal, 65536)
    except OSError:
        return b""
    sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()
    return chunk


def code_of(process: int) -> int:
    """Waits for the process, which may not see its end."""
    while time.monotonic() < DEADLINE:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.kill(process, signal.SIGKILL)
    return 99


def main() -> int:
    """Carries out the script."""
    script = sys.stdin.read().splitlines()
    process, terminal = pty.fork()
    if process == 0:
        # A program that was started in the background ignores it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execvp(sys.argv[3], sys.argv[3:])
    set_size(terminal, int(sys.argv[1]), int(sys.argv[2]))
    seen = b""
    for line in script:
        word, _, text = line.partition(" ")
        if word == "wait":
            while text.encode() not in seen:
                chunk = read_some(terminal)
                if not chunk:
                    return 98
                seen += chunk
            seen = seen.partition(text.encode())[2]
        elif word == "send":
            os.write(terminal, text.encode().decode("unicode_escape").encode())
        elif word == "resize":
            set_size(terminal, *(int(number) for number in text.split()))
        elif word == "touch":
            Path(text).touch()
        elif word == "close":
            os.close(terminal)
            return code_of(process)
    while read_some(terminal):
        pass
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
