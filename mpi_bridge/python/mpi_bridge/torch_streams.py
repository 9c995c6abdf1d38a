# SPDX-License-Identifier: Apache-2.0
"""The order of the CUDA stream that is current in torch, for operations of the engine.

Nothing here makes the host wait, until the process leaves the step.
"""

from __future__ import annotations

import contextlib
import functools

import torch

from . import world


def current(device: torch.device) -> int:
    """Return the number (a cudaStream_t) of the stream that is current for the device."""
    world.before_leaving(("torch", device), functools.partial(_finish, device))
    return torch.cuda.current_stream(device).cuda_stream


def _finish(device: torch.device) -> None:
    """Wait for the device: other ranks may need this one's part of what is under way there."""
    # A device that has failed cannot be waited for, and the error has been raised elsewhere.
    with contextlib.suppress(RuntimeError):
        torch.cuda.synchronize(device)


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
