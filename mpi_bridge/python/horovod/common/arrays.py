# SPDX-License-Identifier: Apache-2.0
"""The few things that the collectives ask of a framework's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Arrays(Protocol):
    """Adapter of one framework. Arrays that it returns are contiguous and in host memory."""

    def shape(self, array: Any) -> tuple[int, ...]:
        """Return the lengths of the axes."""

    def dtype_name(self, array: Any) -> str:
        """Return the element type's name, such as "float32"."""

    def itemsize(self, array: Any) -> int:
        """Return the bytes of one element."""

    def host(self, array: Any) -> Any:
        """Return the array itself if it is contiguous in host memory, else such a copy."""

    def empty(self, shape: Sequence[int], like: Any) -> Any:
        """Return an uninitialised array of the same element type."""

    def scaled(self, array: Any, factor: float) -> Any:
        """Return a new array of the same type; integers are truncated toward zero."""

    def reshape(self, array: Any, shape: Sequence[int]) -> Any:
        """Return the elements in another shape, not copied."""
