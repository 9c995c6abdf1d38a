# SPDX-License-Identifier: Apache-2.0
"""Reduces the list of gradients of a training step, as numpy arrays, in one call.

The dense gradients are copied into a few blocks. Each block is one named operation and is reduced
in place, and the results are views of the block. So a step costs one copy of each gradient and a
handful of calls into the engine, however many variables the model has. A block travels while the
next one is filled. A sparse gradient (values, and the rows they belong to) takes two allgathers.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpi_bridge import (
    InvalidArgumentError,
    MismatchError,
    MpiBridgeError,
    engine,
    process_sets,
    replicas,
    world,
)
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


# The type and the shape of an array; a shape that is not known before the step is None.
Form = tuple[np.dtype, "tuple[int, ...] | None"]


class Plan:
    """The blocks for dense gradients of certain types and shapes, and their memory."""

    def __init__(self, blocks: Sequence[layout.Block], lines: Sequence[str]) -> None:
        self.blocks = blocks
        self.memory = [result_memory.ReusedMemory(block.nbytes) for block in blocks]
        self._lines = lines
        self._agreed_in = -1  # the session of world.init()

    def agree(self, label: str, process_set: int) -> None:
        """Collective, once after each init(): raise an error if the ranks' gradients differ."""
        session = world.session()
        if self._agreed_in != session:
            require_same(label, self._lines, process_set)
            self._agreed_in = session


class Exchange:
    """Reduces the gradients of the same variables step after step. Any thread may call."""

    def __init__(self, label: str, members: Sequence[Member], settings: Settings) -> None:
        self.label = label
        self.settings = settings
        self._plans: dict[tuple[Any, ...], Plan] = {}
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
            plan = self.plan([(array.dtype, array.shape) for array in sources])
            step = self.step(plan, len(sources))
            try:
                for number in range(len(plan.blocks)):
                    step.submit_block(number, self.positions(plan, number), sources)
                for position, name in self._sparse:
                    step.submit_sparse(name, position, *sources[position : position + 2])
                return step.finish()
            finally:
                step.release()

    def plan(self, forms: Sequence[Form], enough: int | None = None) -> Plan:
        """Return the same plan for arrays of the same types and shapes.

        With `enough`, blocks of so many bytes are not filled further, and the blocks are in the
        order in which a backward pass usually computes the gradients: the last variable's first.
        """
        items = [layout.Item(name, *forms[position]) for position, name in self._dense]
        key = (enough, *((item.dtype, item.shape) for item in items))
        if key not in self._plans:
            shared = (self.label, items, self.settings.groups, self.settings.threshold)
            if enough is None:
                blocks = layout.assign(*shared)
            else:
                blocks = layout.assign(*shared, range(len(items) - 1, -1, -1), enough)
            sparse = [f"{name}: {forms[i][0].name} at indices" for i, name in self._sparse]
            parts = "" if enough is None else f" in parts of {enough} bytes"
            lines = [*map(str, items), *sparse, f"{self.settings}{parts}"]
            lines.append(f"{replicas.VARIABLE}={replicas.interval()}")
            self._plans[key] = Plan(blocks, lines)
        return self._plans[key]

    def positions(self, plan: Plan, number: int) -> list[int]:
        """Return where a block's gradients are in the list of arrays."""
        return [self._dense[index][0] for index, _ in plan.blocks[number].items]

    @property
    def sparse(self) -> list[tuple[int, str]]:
        """Where the sparse gradients begin in the list of arrays, and their names."""
        return self._sparse

    def step(self, plan: Plan, count: int) -> Step:
        """Begin a step on `count` arrays. One with this label that was not finished is given up."""
        unfinished = _unfinished.pop(self.label, None)
        if unfinished is not None:
            unfinished.give_up()
        plan.agree(self.label, self.settings.process_set)
        sparse = [f"{self.label}/{name}" for _, name in self._sparse]
        step = _unfinished[self.label] = Step(self.label, self.settings, plan, count, sparse)
        return step


# By label, because operations of the same label have the same names.
_unfinished: dict[str, Step] = {}
_exchanges: dict[tuple[Any, ...], Exchange] = {}


def exchange_for(label: str, members: tuple[Member, ...], settings: Settings) -> Exchange:
    """Return the same exchange for the same arguments, with its memory and its plan.

    In eager mode a script makes a new tape in each step.
    """
    return _exchanges.setdefault((label, members, settings), Exchange(label, members, settings))


class Step:
    """One step's operations in flight."""

    def __init__(
        self, label: str, settings: Settings, plan: Plan, count: int, sparse: Sequence[str]
    ) -> None:
        self._label = label
        self._settings = settings
        self._plan = plan
        self._session = world.session()
        self._results: list[Any] = [None] * count
        self._handles: list[Handle] = []
        # The names of the operations that are not submitted yet.
        self._missing = [block.name for block in plan.blocks]
        self._missing += [f"{name}.{part}" for name in sparse for part in ("values", "indices")]
        self._gathers: list[tuple[Handle, int, float, np.ndarray]] = []

    def submit_block(
        self, number: int, positions: Sequence[int], arrays: Mapping[int, np.ndarray] | Sequence
    ) -> None:
        """Fill a block from the arrays at `positions`, and submit it."""
        block, reused = self._plan.blocks[number], self._plan.memory[number]
        memory = reused.take()
        views = block.views(memory)
        reused.lend(memory, views)
        for position, view in zip(positions, views):
            np.copyto(view, arrays[position])
            self._results[position] = view
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

    def submit_sparse(
        self, name: str, position: int, values: np.ndarray, indices: np.ndarray
    ) -> None:
        """Gather the values and indices of all ranks; their results begin at `position`."""
        settings = self._settings
        members = process_sets.size(settings.process_set)
        divisor = members if settings.op is Op.AVERAGE else 1
        factor = settings.prescale * settings.postscale / divisor
        full_name = f"{self._label}/{name}"
        handle = self._submit(Kind.ALLGATHER, values, name=f"{full_name}.values")
        self._gathers.append((handle, position, factor, values))
        handle = self._submit(Kind.ALLGATHER, indices, name=f"{full_name}.indices")
        self._gathers.append((handle, position + 1, 1.0, indices))

    def finish(self) -> list[np.ndarray]:
        """Wait for everything and return the results."""
        for handle in self._handles:
            handle.wait()
        for handle, position, factor, sent in self._gathers:
            gathered = take_rows(handle, sent)
            if factor != 1.0:
                np.multiply(gathered, gathered.dtype.type(factor), out=gathered)
            self._results[position] = gathered
        return self._results

    def release(self) -> None:
        """Release the names; what has not finished is waited for, because it uses our memory."""
        if _unfinished.get(self._label) is self:
            del _unfinished[self._label]
        for handle in self._handles:
            handle.release()

    def give_up(self) -> None:
        """Submit, as one byte each, the operations that are missing, and wait for all."""
        # After a shutdown() and init() the ranks may be others, and they know of no such step.
        if self._session != world.session():
            return
        byte = np.zeros(1, np.uint8)
        error: MpiBridgeError | None = None
        try:
            for name in list(self._missing):
                try:
                    self._submit(Kind.ALLREDUCE, byte, np.empty_like(byte), name=name)
                except MpiBridgeError as refused:
                    error = refused
            for handle in self._handles:
                try:
                    handle.wait()
                except (MismatchError, InvalidArgumentError):
                    pass  # another rank has submitted a gradient, and is told by the same error
                except MpiBridgeError as failed:
                    error = failed
        finally:
            self.release()
        if error is not None:
            raise error

    def _submit(
        self, kind: Kind, send: np.ndarray, recv: Any = None, *, name: str, **options: Any
    ) -> Handle:
        options["process_set"] = self._settings.process_set
        handle = engine.submit(kind, send, recv, name=name, **options)
        self._handles.append(handle)
        self._missing.remove(name)
        return handle


def take_rows(handle: Handle, like: np.ndarray) -> np.ndarray:
    """Wait for an allgather; return its rows, with the type and row shape of `like`."""
    result = handle.wait()
    rows = result_memory.empty((result.rows, *like.shape[1:]), like.dtype)
    result.copy_to(rows)
    return rows
