# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch whose values lie one after the other in their memory.

Of others, the engine would send what is not meant: a conjugate or a negative of torch may be only
marked as one, so that its memory has the other values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def is_plain(tensor: torch.Tensor) -> bool:
    """Tell whether the tensor's values lie one after the other in its memory."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with the same values of which that is so; itself, if it is."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous()
