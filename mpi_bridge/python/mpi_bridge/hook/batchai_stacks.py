# SPDX-License-Identifier: Apache-2.0
"""Lets `batchai job stacks` ask this process for the stacks of its threads.

faulthandler writes them from a signal handler of C, so they also come from a thread that holds the
interpreter's lock for ever. Each thread that gets the signal writes its own stack: that of another
one, which runs meanwhile, cannot be read safely, and Python has crashed from that
(https://github.com/python/cpython/issues/116008). The stacks go to a file in memory that has no
path: only who may look into this process can open it, through /proc/PID/fd. It costs a file
descriptor, and nothing else until somebody asks.

The file begins with a line that says what is needed to ask, and whether it still holds::

    batchai-stacks 1 PID DESCRIPTOR SIGNAL

Whoever asks sends the signal to a thread and reads what is added to the file. They ask only if PID
is the process itself (a child that C code has forked has its parent's file) and DESCRIPTOR still is
this file (programs may close what they do not know, and open something else in its place).
"""

# ruff: noqa: SIM105
# Neither signal nor contextlib is imported: each takes milliseconds, in each Python of the job.
import _signal
import faulthandler
import fcntl
import os

_NAME = "batchai-stacks"
# Above what programs count on, as the first descriptors that are free.
_LEAST_DESCRIPTOR = 200

_descriptor = -1
_number = 0


def is_armed() -> bool:
    """Return whether this process can be asked."""
    return _number != 0


def arm() -> None:
    """Arm this process, once. Does nothing outside of Slurm's jobs, or if BATCHAI_STACKS is 0.

    A process that cannot be armed goes on as it is.
    """
    global _number
    if _number or "SLURM_JOB_ID" not in os.environ or os.environ.get("BATCHAI_STACKS") == "0":
        return
    # A program takes a real-time signal from the lower end, if it takes any.
    for number in range(_signal.SIGRTMAX - 1, _signal.SIGRTMIN, -1):
        if _signal.getsignal(number) == _signal.SIG_DFL:
            _number = number
            _ignore_from_now_on()
            _begin()
            os.register_at_fork(after_in_child=_begin)
            return


def _ignore_from_now_on() -> None:
    # At its end Python restores this, so that a signal that comes late does not kill the process.
    try:
        _signal.signal(_number, _signal.SIG_IGN)
    except ValueError:
        pass  # only the main thread may do that


def _begin() -> None:
    try:
        _close_inherited()
        _open()
    except Exception:  # whatever it is, the job's program has to go on
        pass


def memory_file(name: str) -> int:
    """Return a new file in memory, which is closed on exec."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    # This Python was built for a C library older than 2.27, as those of conda are.
    import ctypes

    close_on_exec = 1
    number = ctypes.CDLL(None, use_errno=True).memfd_create(name.encode(), close_on_exec)
    if number < 0:
        raise OSError(ctypes.get_errno(), "memfd_create")
    return number


def out_of_the_way(low: int) -> int:
    """Give a descriptor a higher number than those that programs count on."""
    try:
        high = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _LEAST_DESCRIPTOR)
    except OSError:  # the limit of descriptors is lower than that
        return low
    os.close(low)
    return high


def _open() -> None:
    global _descriptor
    _descriptor = out_of_the_way(memory_file(_NAME))
    fcntl.fcntl(_descriptor, fcntl.F_SETFL, os.O_APPEND)
    faulthandler.register(_number, file=_descriptor, all_threads=False, chain=False)
    head = f"{_NAME} 1 {os.getpid()} {_descriptor} {_number}\n"
    os.write(_descriptor, head.encode())


def _close_inherited() -> None:
    # Somebody else may have closed it, and opened something else.
    try:
        if os.readlink(f"/proc/self/fd/{_descriptor}").startswith(f"/memfd:{_NAME}"):
            os.close(_descriptor)
    except OSError:
        pass
