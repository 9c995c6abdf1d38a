# SPDX-License-Identifier: Apache-2.0
"""Names of Horovod's interface that have nothing behind them yet say so when they are used."""

from __future__ import annotations

from typing import Any, Callable, NoReturn


def not_supported(name: str, instead: str = "") -> NotImplementedError:
    """Return the error for something that is missing; `instead` names what works."""
    hint = f"; {instead}" if instead else ""
    return NotImplementedError(f"{name} is not supported yet{hint}")


def unsupported_function(name: str, instead: str = "") -> Callable[..., NoReturn]:
    """Return a function that refuses to be called."""

    def refuse(*_arguments: Any, **_options: Any) -> NoReturn:
        raise not_supported(name, instead)

    refuse.__name__ = name.rpartition(".")[2]
    refuse.__doc__ = f"Raise NotImplementedError: {name} is not supported yet."
    return refuse


class UnsupportedNamespace:
    """Stands for a module whose every member is missing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, member: str) -> NoReturn:
        # Introspection asks for these and expects AttributeError.
        if member.startswith("__"):
            raise AttributeError(member)
        raise not_supported(f"{self._name}.{member}")
