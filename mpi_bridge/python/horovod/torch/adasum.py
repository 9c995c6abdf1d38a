# SPDX-License-Identifier: Apache-2.0
"""Adasum: a sum that reduces what two ranks have in common, so that no learning rate must grow.

Two vectors a and b become

    (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b

which is their sum if they are orthogonal and their average if they are equal. Ranks are combined in
pairs, then pairs of pairs, and so on; an odd one goes on to the next level.

The implementation uses the engine as follows. An alltoall gives each rank its share of the elements
of all n vectors. On each level the ranks add up the dot products of their shares (one short
allreduce) and combine their shares. After log2(n) levels an allgather joins the shares. So 2(n-1)/n
of the data travel, as in an allreduce, and all ranks get the same bits. Dot products are computed
separately for each tensor of a group, in 64-bit floats.

The levels run one after the other on the caller's thread. poll() and finish() of any operation
advance all operations in flight by one step, so ranks may wait for them in any order.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Generator, Sequence
from typing import Any, Callable

import torch

from mpi_bridge import MpiBridgeError, Op, engine
from mpi_bridge.engine import Kind

from ..common import handles
from ..common.process_sets import number_of
from ..common.util import even_parts
from . import tensors
from .tensors import Place, Reduction

_Steps = Generator[engine.Handle, engine.Result, list[torch.Tensor]]

_STEP_SECONDS = 0.002  # to wait for one operation, while others are in flight

_lock = threading.RLock()
_under_way: list[_Running] = []


class _Running:
    """One Adasum in flight; `steps` yields each operation of the engine that it needs next."""

    def __init__(self, steps: _Steps, complete: Callable[[list[torch.Tensor]], Any]) -> None:
        self._steps = steps
        self._complete = complete
        self._handle: engine.Handle | None = next(steps)
        self._outputs: list[torch.Tensor] = []
        self._failure: Exception | None = None
        with _lock:
            _under_way.append(self)

    def advance(self) -> None:
        """Go as far as is possible without waiting. Requires the lock."""
        while self._handle is not None and self._handle.poll():
            try:
                result = self._handle.wait()
                following = self._steps.send(result)
                self._handle.release()
                self._handle = following
            except StopIteration as end:
                self._outputs = end.value
                self._end()
            except Exception as error:
                self._failure = error
                self._end()

    def _end(self) -> None:
        handle, self._handle = self._handle, None
        handle.release()
        _under_way.remove(self)

    def poll(self) -> bool:
        with _lock:
            for running in list(_under_way):
                running.advance()
            return self._handle is None

    def finish(self) -> Any:
        while not self.poll():
            handle = self._handle
            if handle is None:
                break
            # If this has failed, it fails again in advance(), which keeps the error.
            with contextlib.suppress(MpiBridgeError):
                handle.wait(_STEP_SECONDS)
        if self._failure is not None:
            raise self._failure
        return self._complete(self._outputs)


def begin(
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    reduction: Reduction,
    place: Place,
    complete: Callable[[list[torch.Tensor]], Any],
) -> _Running:
    """Start to combine all ranks' `inputs` into `outputs`, which may be the same tensors."""
    for tensor in inputs:
        if not tensor.dtype.is_floating_point:
            raise ValueError(f"Adasum combines floating-point tensors, not {tensor.dtype}")
    number = number_of(place.process_set)
    name = place.name if place.name is not None else handles.next_name("adasum", number)
    place = Place(f"{name}.adasum", place.process_set)
    return _Running(_steps(inputs, outputs, reduction, place), complete)


def _wire_type(inputs: Sequence[torch.Tensor]) -> torch.dtype:
    dtypes = {tensor.dtype for tensor in inputs}
    return dtypes.pop() if len(dtypes) == 1 else torch.float32


def _steps(
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    reduction: Reduction,
    place: Place,
) -> _Steps:
    members, own = place.process_set.size(), place.process_set.rank()
    flat = torch.cat(
        [tensors.staged(tensor).reshape(-1).to(_wire_type(inputs)) for tensor in inputs]
    )
    if reduction.prescale != 1.0:
        flat = flat * reduction.prescale
    shares = even_parts(flat.numel(), members)
    handle = place.submit(Kind.ALLTOALL, flat, None, splits=shares)
    result = yield handle
    received = torch.empty(members * shares[own], dtype=flat.dtype)
    result.copy_to(received)
    vectors = list(received.to(torch.float64).view(members, shares[own]))

    first = sum(shares[:own])
    cuts = _cuts([tensor.numel() for tensor in inputs], first, first + shares[own])
    for level in itertools.count():
        if len(vectors) == 1:
            break
        pairs = list(zip(vectors[0::2], vectors[1::2]))
        products = torch.stack([_dot_products(a, b, cuts) for a, b in pairs])
        here = place._replace(name=f"{place.name}.{level}")
        yield here.submit(Kind.ALLREDUCE, products, products, op=Op.SUM)
        odd = vectors[-1:] if len(vectors) % 2 else []
        vectors = [_combined(a, b, p, cuts) for (a, b), p in zip(pairs, products)] + odd
    own_share = vectors[0]
    if reduction.postscale != 1.0:
        own_share = own_share * reduction.postscale
    result = yield place.submit(Kind.ALLGATHER, own_share.to(flat.dtype), None)
    result.copy_to(flat)
    with torch.no_grad():
        parts = flat.split([tensor.numel() for tensor in inputs])
        for output, part in zip(outputs, parts):
            output.copy_(part.view(output.shape))
    return list(outputs)


def _cuts(lengths: Sequence[int], first: int, end: int) -> list[tuple[int, int]]:
    """Return the part of a share, the elements [first, end) of all, that belongs to each tensor."""
    cuts, start = [], 0
    for length in lengths:
        low, high = max(start, first), min(start + length, end)
        cuts.append((low - first, max(low, high) - first))
        start += length
    return cuts


def _dot_products(a: torch.Tensor, b: torch.Tensor, cuts: list[tuple[int, int]]) -> torch.Tensor:
    """Return for each tensor a.b, a.a and b.b of this rank's share."""
    rows = [(a[low:high], b[low:high]) for low, high in cuts]
    return torch.stack([torch.stack([x @ y, x @ x, y @ y]) for x, y in rows])


def _combined(
    a: torch.Tensor, b: torch.Tensor, products: torch.Tensor, cuts: list[tuple[int, int]]
) -> torch.Tensor:
    combined = torch.empty_like(a)
    for (low, high), (ab, aa, bb) in zip(cuts, products.tolist()):
        of_a = 1.0 - (ab / (2.0 * aa) if aa else 0.0)
        of_b = 1.0 - (ab / (2.0 * bb) if bb else 0.0)
        combined[low:high] = of_a * a[low:high] + of_b * b[low:high]
    return combined
