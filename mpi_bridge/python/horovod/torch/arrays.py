# SPDX-License-Identifier: Apache-2.0
"""torch tensors as the collectives see them."""

from __future__ import annotations

from collections.abc import Sequence

import torch


class TorchArrays:
    """Adapter for torch; see horovod.common.arrays."""

    def shape(self, array: torch.Tensor) -> tuple[int, ...]:
        """Return the lengths of the axes."""
        return tuple(array.shape)

    def dtype_name(self, array: torch.Tensor) -> str:
        """Return the element type's name."""
        return dtype_name(array.dtype)

    def itemsize(self, array: torch.Tensor) -> int:
        """Return the bytes of one element."""
        return array.element_size()

    def host(self, array: torch.Tensor) -> torch.Tensor:
        """Return the tensor if it is contiguous in host memory, else such a copy."""
        return array.detach().cpu().contiguous()

    def empty(self, shape: Sequence[int], like: torch.Tensor) -> torch.Tensor:
        """Return an uninitialised tensor in host memory."""
        return torch.empty(tuple(shape), dtype=like.dtype)

    def scaled(self, array: torch.Tensor, factor: float) -> torch.Tensor:
        """Return a new tensor of the same type; integers are truncated toward zero."""
        if array.dtype.is_floating_point:
            return array * factor
        return (array.double() * factor).to(array.dtype)

    def reshape(self, array: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        """Return a view in another shape."""
        return array.view(tuple(shape))


def dtype_name(dtype: torch.dtype) -> str:
    """Return "float32" for torch.float32."""
    return str(dtype).rpartition(".")[2]
