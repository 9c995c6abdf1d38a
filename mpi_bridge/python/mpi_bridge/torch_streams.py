# SPDX-License-Identifier: Apache-2.0
"""The order of the CUDA stream that is current in torch, for operations of the engine.

Nothing here makes the host wait.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch


def current(device: torch.device) -> int:
    """Return the number (a cudaStream_t) of the stream that is current for the device."""
    return torch.cuda.current_stream(device).cuda_stream


def stream_of(device: torch.device, number: int) -> torch.cuda.Stream:
    """Return torch's object for a stream of the device."""
    # For 0, ExternalStream() would be one of torch's own streams, and not the default one.
    if number == 0:
        return torch.cuda.default_stream(device)
    return torch.cuda.ExternalStream(number, device=device)


def make_current_wait(device: torch.device, number: int) -> None:
    """Make the current stream wait for what the other one holds now."""
    if current(device) != number:
        torch.cuda.current_stream(device).wait_stream(stream_of(device, number))


def make_wait_for_current(device: torch.device, number: int) -> None:
    """Make the other stream wait for what the current one holds now."""
    if current(device) != number:
        stream_of(device, number).wait_stream(torch.cuda.current_stream(device))


def keep_from_reuse(device: torch.device, number: int, tensors: Iterable[torch.Tensor]) -> None:
    """Tell torch's allocator that the stream uses tensors, whichever stream they are from.

    Otherwise a block that is freed goes to the next tensor of its own stream at once, also if this
    stream still reads it.
    """
    stream = stream_of(device, number)
    for tensor in tensors:
        tensor.record_stream(stream)
