# SPDX-License-Identifier: Apache-2.0
"""Reduces the list of gradients of a training step, as numpy arrays, in one call.

The dense gradients are copied into a few blocks. Each block is one named operation and is reduced
in place, and the results are views of the block. So a step costs one copy of each gradient and a
handful of calls into the engine, however many variables the model has. A block travels while the
next one is filled. A sparse gradient (values, and the rows they belong to) takes two allgathers.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpi_bridge import engine, process_sets
from mpi_bridge.datatype import Op
from mpi_bridge.engine import Handle, Kind

from . import failures, layout, result_memory
from .agreement import require_same


@dataclass(frozen=True)
class Member:
    """One gradient; its name is that of its variable, which is the same on all ranks."""

    name: str
    is_sparse: bool = False  # if so, it has two arrays, values and indices


@dataclass(frozen=True)
class Settings:
    """How gradients are reduced; the same on all ranks of the process set."""

    op: Op = Op.AVERAGE  # or SUM
    prescale: float = 1.0
    postscale: float = 1.0
    process_set: int = engine.WORLD
    # Positions, among the dense members, of those that must be reduced together.
    groups: tuple[tuple[int, ...], ...] = ()
    threshold: int = 128 << 20  # bytes; HOROVOD_FUSION_THRESHOLD


_labels: dict[tuple[Any, ...], str] = {}
_labels_lock = threading.Lock()


def label_for(kind: str, names: Sequence[str], process_set: int) -> str:
    """Return a prefix for the names of the operations on this list of gradients.

    Lists are numbered in the order in which they are first seen, which is the same on all ranks of
    a process set. So ranks with different lists use the same name, and the difference is reported;
    two models whose variables have equal names use different names.
    """
    key = (kind, process_set, *names)
    with _labels_lock:
        if key not in _labels:
            number = sum(1 for other in _labels if other[:2] == key[:2])
            _labels[key] = f"{kind}.{number}"
        return _labels[key]


class _Plan:
    """The blocks for dense gradients of certain types and shapes, and their memory."""

    def __init__(self, blocks: Sequence[layout.Block]) -> None:
        self.blocks = blocks
        self.memory = [result_memory.ReusedMemory(block.nbytes) for block in blocks]


class Exchange:
    """Reduces the gradients of the same variables step after step. Any thread may call."""

    def __init__(self, label: str, members: Sequence[Member], settings: Settings) -> None:
        self._label = label
        self._settings = settings
        self._plans: dict[tuple[Any, ...], _Plan] = {}
        # Where each member begins in the list of arrays.
        self._dense: list[tuple[int, str]] = []
        self._sparse: list[tuple[int, str]] = []
        position = 0
        for member in members:
            (self._sparse if member.is_sparse else self._dense).append((position, member.name))
            position += 2 if member.is_sparse else 1

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """Collective: return the reduced gradients, as one or two arrays each, like the arguments.

        The results are new arrays, aligned for TensorFlow.
        """
        with failures.remembered():
            sources = [np.asarray(array, order="C") for array in arrays]
            step = _Step(self._settings, self._plan(sources), sources)
            try:
                step.submit_dense([position for position, _ in self._dense])
                for position, name in self._sparse:
                    step.submit_sparse(f"{self._label}/{name}", position)
                return step.finish()
            finally:
                step.release()

    def _plan(self, arrays: Sequence[np.ndarray]) -> _Plan:
        items = [
            layout.Item(name, arrays[position].dtype, arrays[position].shape)
            for position, name in self._dense
        ]
        key = tuple((item.dtype, item.shape) for item in items)
        if key not in self._plans:
            sparse = [f"{name}: {arrays[i].dtype.name} at indices" for i, name in self._sparse]
            lines = [*map(str, items), *sparse, str(self._settings)]
            require_same(self._label, lines, self._settings.process_set)
            settings = self._settings
            blocks = layout.assign(self._label, items, settings.groups, settings.threshold)
            self._plans[key] = _Plan(blocks)
        return self._plans[key]


_exchanges: dict[tuple[Any, ...], Exchange] = {}


def exchange_for(label: str, members: tuple[Member, ...], settings: Settings) -> Exchange:
    """Return the same exchange for the same arguments, with its memory and its plan.

    In eager mode a script makes a new tape in each step.
    """
    return _exchanges.setdefault((label, members, settings), Exchange(label, members, settings))


class _Step:
    """One call's operations in flight."""

    def __init__(self, settings: Settings, plan: _Plan, arrays: Sequence[np.ndarray]) -> None:
        self._settings = settings
        self._plan = plan
        self._arrays = arrays
        self._results: list[Any] = [None] * len(arrays)
        self._handles: list[Handle] = []
        self._gathers: list[tuple[Handle, int, float]] = []

    def submit_dense(self, positions: Sequence[int]) -> None:
        """Fill one block after the other and submit each at once."""
        for block, reused in zip(self._plan.blocks, self._plan.memory):
            memory = reused.take()
            views = block.views(memory)
            reused.lend(memory, views)
            for (index, _), view in zip(block.items, views):
                np.copyto(view, self._arrays[positions[index]])
                self._results[positions[index]] = view
            vector = memory.view(block.dtype)
            self._submit(
                Kind.ALLREDUCE,
                vector,
                vector,
                name=block.name,
                op=self._settings.op,
                prescale=self._settings.prescale,
                postscale=self._settings.postscale,
            )

    def submit_sparse(self, name: str, position: int) -> None:
        """Gather the values and indices of all ranks."""
        settings = self._settings
        members = process_sets.size(settings.process_set)
        divisor = members if settings.op is Op.AVERAGE else 1
        factor = settings.prescale * settings.postscale / divisor
        values = self._submit(Kind.ALLGATHER, self._arrays[position], name=f"{name}.values")
        self._gathers.append((values, position, factor))
        indices = self._submit(Kind.ALLGATHER, self._arrays[position + 1], name=f"{name}.indices")
        self._gathers.append((indices, position + 1, 1.0))

    def finish(self) -> list[np.ndarray]:
        """Wait for everything and return the results."""
        for handle in self._handles:
            handle.wait()
        for handle, position, factor in self._gathers:
            gathered = take_rows(handle, self._arrays[position])
            if factor != 1.0:
                np.multiply(gathered, gathered.dtype.type(factor), out=gathered)
            self._results[position] = gathered
        return self._results

    def release(self) -> None:
        """Release the names; what has not finished is waited for, because it uses our memory."""
        for handle in self._handles:
            handle.release()

    def _submit(self, kind: Kind, send: np.ndarray, recv: Any = None, **options: Any) -> Handle:
        handle = engine.submit(kind, send, recv, process_set=self._settings.process_set, **options)
        self._handles.append(handle)
        return handle


def take_rows(handle: Handle, like: np.ndarray) -> np.ndarray:
    """Wait for an allgather; return its rows, with the type and row shape of `like`."""
    result = handle.wait()
    rows = result_memory.empty((result.rows, *like.shape[1:]), like.dtype)
    result.copy_to(rows)
    return rows
