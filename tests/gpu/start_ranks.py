#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts ranks on this host that find each other by PMI-2, where there is neither Slurm nor PMIx.

usage: start_ranks.py [--own-host-ids] [--killed RANK] N PROGRAM [ARGUMENT ...]

  --own-host-ids  gives each rank an NCCL_HOSTID of its own, so that NCCL takes the ranks for those
                  of several hosts and allows them to share a GPU (over the loopback interface,
                  unless NCCL_SOCKET_IFNAME is set)
  --killed RANK   this rank is to end by SIGKILL; it is wrong if it does not

The status is 0 if all ranks have ended as they should, otherwise that of the first that has not.
All others are killed 30 s after it, or at once on Ctrl-C and SIGTERM.

Example: start_ranks.py 2 python3 train.py
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time

HEADER_BYTES = 6
PATIENCE = 30.0
PR_SET_PDEATHSIG = 1
GREETING = b"cmd=init pmi_version=2 pmi_subversion=0\n"


class Server:
    """The other end of the ranks' sockets: PMI-2 as Slurm's mpi/pmi2 speaks it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: dict[str, str] = {}
        self._fence: list[socket.socket] = []  # those that wait for the others
        self._greeted: set[socket.socket] = set()

    def serve(self, rank: int, end: socket.socket) -> bool:
        """Answer one request; return whether the rank may send more."""
        if end not in self._greeted:
            if _exactly(end, len(GREETING)) != GREETING:
                return False
            self._greeted.add(end)
            end.sendall(b"cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n")
            return True
        header = _exactly(end, HEADER_BYTES)
        if not header:
            return False
        text = _exactly(end, int(header)).decode()
        request = dict(pair.partition("=")[::2] for pair in text.split(";") if pair)
        command = request.pop("cmd")
        if command == "abort":
            os.kill(os.getpid(), signal.SIGTERM)
        elif command == "fullinit":
            answer = f"pmi-version=2;pmi-subversion=0;rank={rank};size={self._size};appnum=-1;"
            _answer(end, command, answer)
        elif command == "info-getjobattr":
            _answer(end, command, f"found=TRUE;value=(vector,(0,1,{self._size}));")
        elif command == "kvs-put":
            self._values[request["key"]] = request["value"]
            _answer(end, command)
        elif command == "kvs-get":
            value = self._values.get(request["key"])
            found = "found=FALSE;" if value is None else f"found=TRUE;value={value};"
            _answer(end, command, found)
        elif command == "kvs-fence":
            self._fence.append(end)
            if len(self._fence) == self._size:
                for each in self._fence:
                    _answer(each, command)
                self._fence.clear()
        else:
            _answer(end, command)
        return command != "finalize"


def _exactly(end: socket.socket, count: int) -> bytes:
    """Return that many bytes, or none if the rank has gone."""
    received = b""
    while len(received) < count:
        part = end.recv(count - len(received))
        if not part:
            return b""
        received += part
    return received


def _answer(end: socket.socket, command: str, values: str = "") -> None:
    text = f"cmd={command}-response;rc=0;{values}"
    end.sendall(f"{len(text):<{HEADER_BYTES}}{text}".encode())


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _start(
    rank: int, size: int, program: list[str], host_ids: bool
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    own, theirs = socket.socketpair()
    # A Slurm step that this one runs in is none of the ranks' business.
    kept = {k: v for k, v in os.environ.items() if not re.match(r"SLURM_|PMIX?_|OMPI_", k)}
    job = str(os.getpid())
    environment = kept | {
        "PMI_FD": str(theirs.fileno()),
        "PMI_JOBID": f"{job}.0",
        "PMI_RANK": str(rank),
        "PMI_SIZE": str(size),
        "SLURM_JOB_ID": job,
        "SLURM_STEP_ID": "0",
    }
    if host_ids:
        environment["NCCL_HOSTID"] = f"rank-{rank}"
        environment.setdefault("NCCL_SOCKET_IFNAME", "lo")
    process = subprocess.Popen(
        program, env=environment, pass_fds=[theirs.fileno()], preexec_fn=_end_with_parent
    )
    theirs.close()
    return process, own


def _run(
    processes: list[subprocess.Popen[bytes]], ends: list[socket.socket], killed: int | None
) -> int:
    """Serve the ranks until all have ended; return the status."""
    server = Server(len(ends))
    selector = selectors.DefaultSelector()
    for rank, end in enumerate(ends):
        selector.register(end, selectors.EVENT_READ, rank)
    first_wrong: int | None = None
    last = float("inf")
    running = True
    while running:
        for key, _ in selector.select(timeout=0.1):
            end = ends[key.data]
            try:
                more = server.serve(key.data, end)
            except OSError:  # the rank has ended meanwhile
                more = False
            if not more:
                selector.unregister(end)
        statuses = [process.poll() for process in processes]
        running = None in statuses
        for rank, status in enumerate(statuses):
            wanted = -signal.SIGKILL if rank == killed else 0
            if first_wrong is None and status not in (None, wanted):
                first_wrong, last = status or 1, time.monotonic() + PATIENCE
                print(f"start_ranks: rank {rank} has ended with status {status}", file=sys.stderr)
        if time.monotonic() > last:
            for process in processes:
                process.kill()
    return first_wrong or 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="start_ranks.py",
        usage="%(prog)s [--own-host-ids] [--killed RANK] N PROGRAM [ARGUMENT ...]; see --help",
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--own-host-ids", action="store_true")
    parser.add_argument("--killed", type=int)
    parser.add_argument("size", type=int, nargs="?")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if arguments.help:
        print(__doc__)
        return 0
    if not arguments.size or arguments.size < 1 or not arguments.program:
        parser.error("the number of ranks and a program are needed")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    processes: list[subprocess.Popen[bytes]] = []
    ends: list[socket.socket] = []
    try:
        for rank in range(arguments.size):
            process, end = _start(rank, arguments.size, arguments.program, arguments.own_host_ids)
            processes.append(process)
            ends.append(end)
        status = _run(processes, ends, arguments.killed)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except OSError as error:
        print(f"start_ranks: {arguments.program[0]}: {error.strerror}", file=sys.stderr)
        return 127
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
