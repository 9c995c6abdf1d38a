# SPDX-License-Identifier: Apache-2.0
"""The library's errors as exception types; the native library's text is the message."""

from __future__ import annotations


class MpiBridgeError(RuntimeError):
    """Base of every error that the native library reports."""

    status = 0


class NotInitializedError(MpiBridgeError, ValueError):
    """init() was not called, failed, or shutdown() was called since."""

    status = 1


class InvalidArgumentError(MpiBridgeError, ValueError):
    """An argument that the library cannot accept."""

    status = 2


class CollectiveTimeoutError(MpiBridgeError, TimeoutError):
    """A peer did not do its part in time, and a setting limits how long to wait.

    The settings are MPI_BRIDGE_TIMEOUT_SECONDS and MPI_BRIDGE_STALL_SHUTDOWN_SECONDS.
    """

    status = 3


class PeerLostError(MpiBridgeError, ConnectionError):
    """A peer's process or host is gone."""

    status = 4


class MismatchError(MpiBridgeError):
    """The ranks called with disagreeing sizes, shapes or types."""

    status = 5


class BootstrapError(MpiBridgeError):
    """The launcher's PMIx server could not be used, or is missing."""

    status = 6


class InternalError(MpiBridgeError):
    """Transport or memory failure inside the library."""

    status = 7


class ForkedError(NotInitializedError):
    """This process was forked by one that called init(); the library does not work in it."""

    status = 8


class LibraryNotFoundError(ImportError):
    """libmpi_bridge could not be loaded; the text names every place that was tried."""


_BY_STATUS = {
    error.status: error
    for error in (
        NotInitializedError,
        InvalidArgumentError,
        CollectiveTimeoutError,
        PeerLostError,
        MismatchError,
        BootstrapError,
        InternalError,
        ForkedError,
    )
}


def class_names() -> dict[int, str]:
    """Return the names of the exceptions by native status."""
    return {status: error.__name__ for status, error in _BY_STATUS.items()}


def error_for(status: int, name: str, text: str) -> MpiBridgeError:
    """Return the exception for a native status; `name` is the status's constant name."""
    message = text or f"{name} (the library gave no further text)"
    return _BY_STATUS.get(status, MpiBridgeError)(message)
