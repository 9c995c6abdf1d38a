# SPDX-License-Identifier: GPL-2.0-or-later
"""Each rank stands still in a way of its own."""

import multiprocessing
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

rank = int(os.environ["SLURM_PROCID"])
mark = Path(os.environ["MARKS"]) / f"there-{rank}"


def hold_lock(lock: threading.Lock, held: threading.Event) -> None:
    with lock:
        held.set()
        time.sleep(3000)


def take_lock() -> None:
    lock, held = threading.Lock(), threading.Event()
    threading.Thread(target=hold_lock, args=(lock, held), daemon=True).start()
    held.wait()
    mark.touch()
    lock.acquire()


def fill_pipe() -> None:
    _, writer = os.pipe()
    mark.touch()
    while True:  # who asks sends a signal, which ends a write that has begun
        os.write(writer, bytes(1 << 20))


def stop() -> None:
    mark.touch()
    os.kill(os.getpid(), signal.SIGSTOP)


def die() -> None:
    os._exit(1)


def wait_for_worker() -> None:
    context = multiprocessing.get_context("fork")
    from_worker = context.Queue()
    context.Process(target=die).start()
    mark.touch()
    from_worker.get()


def spin() -> None:
    mark.touch()
    while True:
        pass


def work(never: threading.Event) -> None:
    mark.touch()
    never.wait()


def wait_for_thread() -> None:
    worker = threading.Thread(target=work, args=(threading.Event(),))
    worker.start()
    worker.join()


def wait_for_program() -> None:
    program = subprocess.Popen(["sleep", "3000"])
    mark.touch()
    program.wait()  # for sleep


def serve() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    mark.touch()
    server.accept()


def sleep_in_the_kernel() -> None:
    # The kernel keeps the parent until the child has left its memory, which waits for the FIFO.
    fifo = mark.with_name("fifo-of-a-child")
    os.mkfifo(fifo)
    actions = [(os.POSIX_SPAWN_OPEN, 0, str(fifo), os.O_RDONLY, 0)]
    mark.touch()
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=actions)


ways = [
    take_lock,
    fill_pipe,
    stop,
    wait_for_worker,
    spin,
    wait_for_thread,
    wait_for_program,
    serve,
    sleep_in_the_kernel,
]
ways[rank]()
