# SPDX-License-Identifier: Apache-2.0
"""The collectives on lists of numpy arrays; each list of several is one group.

Results are new arrays, aligned so that TensorFlow adopts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import numpy as np

from mpi_bridge import engine, process_sets
from mpi_bridge.engine import Kind

from ..common import reduce_ops
from ..common.reduce_ops import ReduceOp
from . import result_memory
from .exchange import take_rows


class Reduction:
    """The parameters of a reducing call that apply to all its arrays."""

    def __init__(
        self, op: ReduceOp, prescale: float, postscale: float, process_set: int = engine.WORLD
    ) -> None:
        self.op = op
        self.prescale = prescale
        self.postscale = postscale
        self.process_set = process_set

    @property
    def options(self) -> dict[str, Any]:
        """Return the options for the engine."""
        return {
            "op": reduce_ops.native(self.op),
            "prescale": self.prescale,
            "postscale": self.postscale,
            "process_set": self.process_set,
        }


def _run(
    submit: Callable[..., engine.Handle],
    arrays: Sequence[np.ndarray],
    name: str | None,
    finish: Callable[[engine.Handle, int], Any],
) -> list[Any]:
    """Submit all arrays, as a group if there are several, and finish one after the other."""
    is_group = len(arrays) > 1
    handles: list[engine.Handle] = []
    try:
        for number, array in enumerate(arrays):
            numbered = f"{name}.{number}" if is_group and name is not None else name
            options = {"group": name, "group_size": len(arrays)} if is_group and name else {}
            handles.append(submit(number, array, name=numbered, waited_for=True, **options))
        return [finish(handle, number) for number, handle in enumerate(handles)]
    finally:
        for handle in handles:
            handle.release()


def _contiguous(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [np.asarray(array, order="C") for array in arrays]


def allreduce(
    arrays: Sequence[np.ndarray], reduction: Reduction, name: str | None
) -> list[np.ndarray]:
    """Return op over all ranks of each array."""
    sources = _contiguous(arrays)
    results = [result_memory.empty(array.shape, array.dtype) for array in sources]
    if len(sources) == 1:
        engine.call(Kind.ALLREDUCE, sources[0], results[0], name=name, **reduction.options)
        return results

    def submit(number: int, array: np.ndarray, **options: Any) -> engine.Handle:
        return engine.submit(Kind.ALLREDUCE, array, results[number], **reduction.options, **options)

    def finish(handle: engine.Handle, number: int) -> np.ndarray:
        handle.wait()
        return results[number]

    return _run(submit, sources, name, finish)


def reducescatter(
    arrays: Sequence[np.ndarray], reduction: Reduction, name: str | None
) -> list[np.ndarray]:
    """Return this rank's rows of op over all ranks of each array."""
    sources = _contiguous(arrays)

    def submit(number: int, array: np.ndarray, **options: Any) -> engine.Handle:
        return engine.submit(Kind.REDUCE_SCATTER, array, **reduction.options, **options)

    return _run(submit, sources, name, lambda handle, number: take_rows(handle, sources[number]))


def allgather(arrays: Sequence[np.ndarray], process_set: int, name: str | None) -> list[np.ndarray]:
    """Return all ranks' rows of each array, then for each the number of rows of every member."""
    sources = _contiguous(arrays)

    def submit(number: int, array: np.ndarray, **options: Any) -> engine.Handle:
        return engine.submit(Kind.ALLGATHER, array, process_set=process_set, **options)

    gathered = _run(
        submit, sources, name, lambda handle, number: _rows_and_counts(handle, sources[number])
    )
    return [rows for rows, _ in gathered] + [counts for _, counts in gathered]


def alltoall(
    array: np.ndarray, splits: np.ndarray | None, process_set: int, name: str | None
) -> list[np.ndarray]:
    """Return the rows sent to this rank, and how many came from each member.

    Rows beyond the sum of the splits are not sent.
    """
    (source,) = _contiguous([array])
    parts = None if splits is None or splits.size == 0 else splits.tolist()
    members = process_sets.size(process_set)
    if parts is not None:
        if min(parts) < 0 or sum(parts) > source.shape[0]:
            raise ValueError(
                f"alltoall: splits {parts} must be {members} numbers >= 0 "
                f"that add up to no more than the {source.shape[0]} rows"
            )
        source = source[: sum(parts)]
    if parts is None and source.shape[0] % members:
        raise ValueError(
            f"alltoall: {source.shape[0]} rows do not divide evenly among {members} ranks; "
            "give splits"
        )
    handle = engine.submit(
        Kind.ALLTOALL, source, name=name, splits=parts, process_set=process_set, waited_for=True
    )
    try:
        return list(_rows_and_counts(handle, source))
    finally:
        handle.release()


def broadcast(
    arrays: Sequence[np.ndarray], root: int, process_set: int, name: str | None
) -> list[np.ndarray]:
    """Return the root's arrays."""
    results = [result_memory.empty(array.shape, array.dtype) for array in arrays]
    for result, array in zip(results, arrays):
        np.copyto(result, array)

    def submit(number: int, array: np.ndarray, **options: Any) -> engine.Handle:
        return engine.submit(
            Kind.BROADCAST, array, array, root=root, process_set=process_set, **options
        )

    def finish(handle: engine.Handle, number: int) -> np.ndarray:
        handle.wait()
        return results[number]

    return _run(submit, results, name, finish)


def _rows_and_counts(handle: engine.Handle, like: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = take_rows(handle, like)
    return rows, np.array(handle.wait().received_rows, np.int32)
