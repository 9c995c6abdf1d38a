# SPDX-License-Identifier: Apache-2.0
"""Memory for gradients, side by side in the order in which they arrive.

The other ranks of the node can access it, so a bucket of adjacent gradients is reduced in place,
without a copy into a bucket and back. A parameter's `grad` is then a view of this memory, which the
caller reads, clips and clears. If gradients travel in another type, or through host memory, the
memory holds the data that travels. For gradients on the engine's CUDA device it is memory there.
The flags are always in host memory, because the host reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import torch

from mpi_bridge import InternalError, engine, memory, torch_streams
from mpi_bridge.engine import Kind

from ..common import reduce_ops
from ..common.process_sets import number_of
from .compression import Compressor
from .placement import Way, way_of
from .tensors import Order, Place, Reduction

_HOST = torch.device("cpu")


class _Slot:
    """One gradient: its view in the parameter's own layout, and its operation."""

    def __init__(self, view: torch.Tensor, is_gradient: bool, operation: engine.Prepared) -> None:
        self.view = view
        self.is_gradient = is_gradient  # otherwise it holds the data that travels for it
        self.operation = operation


def _allocate(count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return memory of the device; on the host shared memory, or ordinary if there is no more."""
    if device != _HOST:
        return torch.zeros(count, dtype=dtype, device=device)
    try:
        shared = memory.allocate(count * dtype.itemsize)
    except InternalError:
        return torch.zeros(count, dtype=dtype)
    return torch.frombuffer(shared, dtype=dtype)


def _strides(parameter: torch.Tensor) -> tuple[int, ...]:
    """Return the strides that autograd gives a gradient: those of the parameter if it is dense."""
    for layout in (torch.contiguous_format, torch.channels_last, torch.channels_last_3d):
        dimensions = {torch.channels_last: 4, torch.channels_last_3d: 5}.get(layout)
        if dimensions in (None, parameter.dim()) and parameter.is_contiguous(memory_format=layout):
            return parameter.stride()
    return torch.empty(parameter.shape, device="meta").stride()


class GradientMemory:
    """The slots of some parameters, followed by the flags that tell who has which gradient."""

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        flags: torch.Tensor,
        compression: type[Compressor],
        reduction: Reduction,
        place_of: Callable[[torch.Tensor], Place],
        place_of_flags: Place,
    ) -> None:
        self._slots: dict[torch.Tensor, _Slot] = {}
        places = {p: (compression.travels_as(p.dtype), _travels_on(p)) for p in parameters}
        of_flags = (flags.dtype, _HOST)
        counts: dict[tuple[torch.dtype, torch.device], int] = {of_flags: flags.numel()}
        for parameter, place in places.items():
            counts[place] = counts.get(place, 0) + parameter.numel()
        arenas = {place: _allocate(max(count, 1), *place) for place, count in counts.items()}
        used = dict.fromkeys(counts, 0)
        for parameter, place in places.items():
            first, used[place] = used[place], used[place] + parameter.numel()
            flat = arenas[place][first : used[place]]
            view = flat.as_strided(parameter.shape, _strides(parameter))
            is_gradient = place == (parameter.dtype, parameter.device)
            operation = _prepare(flat, parameter.shape, reduction, place_of(parameter))
            self._slots[parameter] = _Slot(view, is_gradient, operation)
        self._flags = arenas[of_flags][used[of_flags] :]
        self._flags_operation = _prepare(self._flags, flags.shape, reduction, place_of_flags)

    def __contains__(self, parameter: Any) -> bool:
        return parameter in self._slots

    def submit_flags(self, flags: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Submit the flags; return a function that waits for their reduction."""
        self._flags.copy_(flags)
        handle = self._flags_operation.submit()

        def finish() -> torch.Tensor:
            handle.finish()
            return self._flags

        return finish

    def submit(self, parameter: torch.Tensor) -> Callable[[], None]:
        """Submit the parameter's gradient, or zeros; return a function that waits for it."""
        slot, gradient = self._slots[parameter], parameter.grad
        if gradient is None:
            slot.view.zero_()
        elif gradient.data_ptr() != slot.view.data_ptr():
            slot.view.copy_(gradient)
        if slot.is_gradient:
            parameter.grad = slot.view
        device = slot.view.device
        stream = None if device == _HOST else torch_streams.current(device)
        handle = slot.operation.submit(stream)
        order = Order(device, stream)
        order.follow_with(slot.view)

        def finish() -> None:
            handle.finish()
            order.join(slot.view)
            if parameter.grad is slot.view:
                return
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
            parameter.grad.copy_(slot.view)

        return finish


def _travels_on(parameter: torch.Tensor) -> torch.device:
    return parameter.device if way_of(parameter) is Way.DEVICE else _HOST


def _prepare(
    flat: torch.Tensor, shape: torch.Size, reduction: Reduction, place: Place
) -> engine.Prepared:
    return engine.prepare(
        Kind.ALLREDUCE,
        flat,
        flat,
        name=place.full_name(Kind.ALLREDUCE),
        process_set=number_of(place.process_set),
        group=place.group,
        group_size=place.group_size,
        op=reduce_ops.native(reduction.op),
        prescale=reduction.prescale,
        postscale=reduction.postscale,
        shape=tuple(shape),
    )
