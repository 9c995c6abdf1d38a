# SPDX-License-Identifier: Apache-2.0
"""Which of the two backends torch gets: the one in C++ where it was built, else the one in Python.

MPI_BRIDGE_TORCH_BACKEND=python or =native asks for one of them. Ranks with either work together.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from typing import Any, NoReturn

import torch

from .. import native, on_device, private_sets, signals, torch_native, world
from ..errors import class_names, error_for

VARIABLE = "MPI_BRIDGE_TORCH_BACKEND"
_CHOICES = ("", "native", "python")
_LEAVING_SECONDS = 5.0  # for threads whose operations mpib_finalize() has ended


@functools.cache
def module() -> Any | None:
    """Return the module in C++, or None for the backend in Python."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in _CHOICES:
        raise ValueError(f"{VARIABLE} is {wanted!r}; it can be 'native' or 'python'")
    if wanted == "python":
        return None
    why = "it has not been built for this torch"
    try:
        loaded = torch_native.load()
    except (torch_native.NotBuiltError, ImportError, OSError) as error:
        loaded, why = None, str(error)
    if loaded is None:
        if wanted == "native":
            raise RuntimeError(
                f"{VARIABLE}=native, but the backend in C++ cannot be used: {why}; "
                "build it: python3 -m mpi_bridge.torch_native build"
            )
        if world.rank() == 0:
            print(
                "mpi_bridge: torch.distributed runs on the backend in Python; the faster one in "
                f"C++ cannot be used: {why}; python3 -m mpi_bridge.torch_native build",
                file=sys.stderr,
            )
        return None
    _introduce(loaded)
    return loaded


def _introduce(loaded: Any) -> None:
    functions = native.functions()
    loaded.set_library(
        {name: _address(getattr(functions, f"mpib_{name}")) for name in loaded.function_names()}
    )
    from . import groups

    loaded.set_package(
        class_names(),
        _raise_error,
        private_sets.close_set,
        groups.split_native,
        groups.shrink_native,
        threading.main_thread().ident,
    )
    on_device.also_finish(loaded.latest_marks)
    world.watch_sessions(
        began=loaded.session_has_begun,
        ended=loaded.session_has_ended,
        left=lambda: loaded.await_threads(_LEAVING_SECONDS),
    )


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


def works_in_flight(group: Any) -> list[Any]:
    """Return the operations and messages of a group that are not known to be done."""
    if module() is None:
        return group._in_flight.all()
    return module().works_in_flight(group._get_backend(torch.device("cpu")))


def _raise_error(status: int, text: str) -> NoReturn:
    if status == signals.INTERRUPTED:
        signals.raise_exception()
    raise error_for(status, f"status {status}", text)
