# SPDX-License-Identifier: Apache-2.0
"""Signals that come while the main thread waits in the native library.

Python runs signal handlers between two instructions of the main thread, so a native wait would
delay them until it ends. The library looks for signals twice a second in a wait. If a handler
raises, the wait ends with a status of its own, and the exception is raised here.
"""

from __future__ import annotations

import ctypes
import threading

from .structures import PythonStruct

INTERRUPTED = 9  # MPIB_ERROR_INTERRUPTED

_python = ctypes.pythonapi
_python.PyErr_Restore.argtypes = [ctypes.c_void_p] * 3
_python.PyErr_Restore.restype = None


def _address(name: str) -> int | None:
    return ctypes.cast(getattr(_python, name), ctypes.c_void_p).value


_interpreter = PythonStruct(
    main_thread=threading.main_thread().ident,
    ensure=_address("PyGILState_Ensure"),
    release=_address("PyGILState_Release"),
    check_signals=_address("PyErr_CheckSignals"),
    fetch=_address("PyErr_Fetch"),
)


def watch(functions: ctypes.CDLL) -> None:
    """Let the library run signal handlers in its waits."""
    hook = ctypes.cast(functions.mpib_check_python_signals, ctypes.c_void_p)
    functions.mpib_set_wait_hook(hook, ctypes.byref(_interpreter))


def ignore(functions: ctypes.CDLL) -> None:
    """Take the hook away, which must not be called when the interpreter has ended."""
    functions.mpib_set_wait_hook(None, None)


def raise_exception() -> None:
    """Raise what a signal handler has raised during a native wait."""
    raised = (_interpreter.type, _interpreter.value, _interpreter.traceback)
    _interpreter.type = _interpreter.value = _interpreter.traceback = None
    if raised[0] is not None:
        _python.PyErr_Restore(*raised)  # ctypes finds the exception and raises it
