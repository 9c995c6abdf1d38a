# SPDX-License-Identifier: Apache-2.0
"""This process's place in the job step, and how it joins and leaves it."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Callable

from . import meeting, memory, native, signals
from .errors import NotInitializedError
from .hook import batchai_stacks


@dataclass(frozen=True)
class _Watcher:
    """What code outside of this package is told: see watch_sessions()."""

    began: Callable[[], None]
    ended: Callable[[], None]
    left: Callable[[], object]


_exit_hooks_installed = False
_owner = 0  # the process that called init()
_session = 0
_joined_session = 0  # the session of the latest init()
_kept: list[object] = []  # buffers that a library in shutdown() may be using
_before_leaving: dict[Hashable, Callable[[], None]] = {}
_watchers: list[_Watcher] = []
_kept_lock = threading.RLock()  # the collector of garbage may come to it again
_exit_message: tuple[int, str] | None = None  # what abort() is called with at the end
_exit_lock = threading.Lock()
_ends_alone = False


def init() -> None:
    """Join the job step. Collective over all its ranks; a second call does nothing.

    The ranks find each other by PMIx or Slurm's PMI-2. Where neither has started them, they meet in
    the store of torch that the environment names, if it names one.
    """
    if meeting.is_in_environment() and not is_initialized():
        init_with(*meeting.from_environment())
    else:
        _join(lambda: native.call("mpib_init"))


def init_with(store: Any, rank: int, size: int) -> None:
    """Do the same as init() for ranks that have a store of torch, where they need it."""
    if meeting.is_needed(size) and not is_initialized():
        join_by(store, rank, size)
    else:
        _join(lambda: native.call("mpib_init"))


def join_by(store: Any, rank: int, size: int) -> None:
    """Join the ranks that meet in a store of torch, whoever has started this process."""
    _join(lambda: meeting.init_with(store, rank, size))


def join_through(exchange: meeting.Exchange, rank: int, size: int) -> None:
    """Join ranks that have other means to tell each other something; see meeting.Exchange."""
    _join(lambda: meeting.init_through(exchange, rank, size))


def _join(join: Callable[[], None]) -> None:
    global _owner, _joined_session
    # Before the first wait for others. Where the hook is on PYTHONPATH it has done so already.
    if "batchai_stacks" not in sys.modules:
        batchai_stacks.arm()
    join()
    _owner = os.getpid()
    signals.watch(native.functions())
    _install_exit_hooks()
    # The library refuses mpib_init() while threads of the session before are still in it.
    with _kept_lock:
        _joined_session = _session
        released = _kept[:]
        _kept.clear()
    del released
    for watcher in _watchers:
        watcher.began()


def shutdown() -> None:
    """Leave the job step. Not a barrier; a second call does nothing. init() may follow.

    In a process forked by the one that called init() it does nothing.
    """
    _leave(keep_content=True)


def _is_forked() -> bool:
    return _owner not in (0, os.getpid())


def _leave(keep_content: bool) -> None:
    global _session
    if _is_forked():
        return
    # The library gives operations only a short time to end, and then aborts them on all ranks.
    while _before_leaving:
        _, action = _before_leaving.popitem()
        action()
    _session += 1
    for watcher in _watchers:
        watcher.ended()
    memory.keep_beyond(lambda: native.call("mpib_finalize"), keep_content)
    for watcher in _watchers:
        watcher.left()


def _leave_at_exit() -> None:
    # Existing arrays must stay mapped, because threads may run on, but their contents do not
    # matter.
    if _exit_message is not None:
        _abort_at_exit()
    _leave(keep_content=False)
    signals.ignore(native.functions())


def before_leaving(key: Hashable, action: Callable[[], None]) -> None:
    """Call `action` once, before this process leaves the step; another one of this key is ignored.

    It lets devices finish the operations that have been handed to them. It must not raise.
    """
    _before_leaving.setdefault(key, action)


def watch_sessions(
    began: Callable[[], None], ended: Callable[[], None], left: Callable[[], object]
) -> None:
    """Tell native code of the sessions that follow.

    `began` is called after a successful init(), `ended` when handles become invalid, and `left`
    once the library has let all calls end.
    """
    _watchers.append(_Watcher(began, ended, left))


def session() -> int:
    """Return a number that changes with each shutdown(); handles of other sessions are invalid."""
    return _session


def keep_until_init(buffers: object, session: int) -> None:
    """Keep what the library of an earlier session may still use, until the next init().

    mpib_finalize() lets messages end for some seconds. If threads do not leave the library, it even
    returns without having let go of their memory; only the next mpib_init() tells.
    """
    with _kept_lock:
        if not _is_forked() and session >= _joined_session:
            _kept.append(buffers)


def is_initialized() -> bool:
    """Tell whether init() has succeeded and shutdown() was not called since."""
    return native.functions().mpib_initialized() == 1


def _query(name: str) -> int:
    value = getattr(native.functions(), name)()
    if value < 0:
        raise NotInitializedError(
            "mpi_bridge is not initialised in this process; call init() first"
        )
    return value


def rank() -> int:
    """Return this process's number among all ranks, from 0."""
    return _query("mpib_rank")


def size() -> int:
    """Return the number of ranks."""
    return _query("mpib_size")


def local_rank() -> int:
    """Return this process's number among the ranks on its host."""
    return _query("mpib_local_rank")


def local_size() -> int:
    """Return the number of ranks on this host."""
    return _query("mpib_local_size")


def cross_rank() -> int:
    """Return this host's number among the hosts that have a rank with this local rank."""
    return _query("mpib_cross_rank")


def cross_size() -> int:
    """Return the number of hosts that have a rank with this local rank."""
    return _query("mpib_cross_size")


def is_homogeneous() -> bool:
    """Tell whether every host has the same number of ranks."""
    return _query("mpib_is_homogeneous") == 1


def set_timeout(seconds: float) -> None:
    """Set how long a collective call may wait for other ranks without progress."""
    native.call("mpib_set_timeout", seconds)


def version() -> str:
    """Return the native library's version."""
    return native.functions().mpib_version().decode()


def abort(code: int = 1, message: str | None = None) -> None:
    """End the whole job step with this exit code; does not return."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            # What cannot be written, to a full disk or a broken pipe, must not keep the step alive.
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    text = message.encode(errors="replace") if message is not None else None
    native.functions().mpib_abort(code, text)


def end_alone(yes: bool) -> None:
    """Say whether an uncaught exception ends only this rank, because the others can go on."""
    global _ends_alone
    _ends_alone = yes


def _is_interactive() -> bool:
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


def _install_exit_hooks() -> None:
    """Leave the step at a normal exit; end it when this rank dies of an uncaught exception.

    Without the second hook, the other ranks would wait for this one until their deadline, because a
    launcher ends a step after a bad exit only if it was told to do so.
    """
    global _exit_hooks_installed
    if _exit_hooks_installed:
        return
    _exit_hooks_installed = True
    atexit.register(_leave_at_exit)
    previous = sys.excepthook

    def end_step(
        kind: type[BaseException], value: BaseException, trace: TracebackType | None
    ) -> None:
        previous(kind, value, trace)
        if _is_forked() or not is_initialized() or size() == 1 or _is_interactive():
            return
        lines = str(value).splitlines()
        summary = f"{kind.__name__}: {lines[0]}" if lines else kind.__name__
        interrupted = issubclass(kind, KeyboardInterrupt)
        ending = (130 if interrupted else 1, f"rank {rank()}: uncaught {summary}")
        caller = sys._getframe().f_back
        if caller is None or sys.excepthook is end_step:
            _end(*ending)
        # Another hook has called this one. That of torch.distributed collects what is printed here,
        # and prints it only later.
        _abort_after(caller, ending)

    sys.excepthook = end_step


def _abort_after(caller: FrameType, ending: tuple[int, str]) -> None:
    """Abort when this function of the calling thread has returned.

    Python may wait for other threads then, which may wait for the other ranks, so this cannot be
    left to the end of the process alone.
    """
    global _exit_message
    _exit_message = ending
    thread = threading.get_ident()

    def wait_and_abort() -> None:
        while _is_in(caller, sys._current_frames().get(thread)):
            time.sleep(0.001)
        _abort_at_exit()

    threading.Thread(target=wait_and_abort, daemon=True).start()


def _is_in(caller: FrameType, frame: FrameType | None) -> bool:
    while frame is not None and frame is not caller:
        frame = frame.f_back
    return frame is not None


def _abort_at_exit() -> None:
    _exit_lock.acquire()  # never released: the process ends
    _end(*_exit_message)


def _end(code: int, message: str) -> None:
    if not _ends_alone:
        abort(code, message)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    os._exit(code)
