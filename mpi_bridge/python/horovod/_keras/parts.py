# SPDX-License-Identifier: Apache-2.0
"""Reduces a step's gradients in parts, so that they travel while backward computes the others.

A compiled step, of TensorFlow or of JAX, calls the host once for each part, as soon as the part's
gradients are computed, and once more at the end for the results. On PyTorch, hooks do this. A
token, the number of the step, goes from call to call, so that the calls come in the same order on
every rank.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from .exchange import Exchange, Form, Plan, Step

# A part must be worth a call of the host, which takes some 50 to 100 microseconds, and there must
# be several parts for one to travel while others are computed.
PART_BYTES = 8 << 20


class Parts:
    """The parts of one list of gradients; `positions` says which arrays each part consists of.

    Steps must not overlap. If a framework ends a compiled step with an error, some parts of it may
    have been submitted, and not the same ones on every rank. When the next step begins, the others
    are submitted as something that matches no gradient. So ranks that all have submitted a part go
    on with the new step together, and a rank that has gone further gets a MismatchError.
    """

    def __init__(self, exchange: Exchange, plan: Plan, count: int) -> None:
        self._exchange = exchange
        self._plan = plan
        self._count = count
        self.positions = [exchange.positions(plan, i) for i in range(len(plan.blocks))]
        if exchange.sparse:
            self.positions.append([i for first, _ in exchange.sparse for i in (first, first + 1)])
        self._numbers = itertools.count(1)
        self._steps: dict[int, Step] = {}  # by token; at most one

    def agree(self) -> None:
        """Collective: compare the ranks' gradients, so that begin() need not."""
        self._plan.agree(self._exchange.label, self._exchange.settings.process_set)

    def begin(self, *arrays: np.ndarray) -> np.ndarray:
        """Collective: begin a step, submit its first part, and return its token.

        It takes the first part, so that an error in the forward pass ends a step before it begins.
        """
        self._steps.clear()
        token = next(self._numbers)
        self._steps[token] = self._exchange.step(self._plan, self._count)
        return self.submit(0, np.asarray(token), *arrays)

    def submit(self, number: int, token: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
        """Collective: submit a part, and return the token."""
        step = self._step_of(token)
        positions = self.positions[number]
        by_position = dict(zip(positions, (np.asarray(array, order="C") for array in arrays)))
        if number < len(self._plan.blocks):
            step.submit_block(number, positions, by_position)
        else:
            for first, name in self._exchange.sparse:
                step.submit_sparse(name, first, by_position[first], by_position[first + 1])
        return np.asarray(int(token), np.int32)

    def finish(self, token: np.ndarray) -> list[np.ndarray]:
        """Wait for all parts; return the reduced gradients in the order of the list."""
        step = self._step_of(token)
        self._steps.clear()
        try:
            return step.finish()
        finally:
            step.release()

    def _step_of(self, token: np.ndarray) -> Step:
        step = self._steps.get(int(token))
        if step is None:
            raise RuntimeError(
                f"{self._exchange.label}: this step was given up, because the next one has begun; "
                "steps on the same gradients must not overlap"
            )
        return step


_parts: dict[tuple[Exchange, Plan], Parts] = {}


def parts_of(exchange: Exchange, forms: Sequence[Form]) -> Parts | None:
    """Return the parts for arrays of these types and shapes; None if one call serves as well."""
    sparse = {i for first, _ in exchange.sparse for i in (first, first + 1)}
    if any(shape is None for i, (_, shape) in enumerate(forms) if i not in sparse):
        return None
    plan = exchange.plan(forms, PART_BYTES)
    if len(plan.blocks) < 2:
        return None
    return _parts.setdefault((exchange, plan), Parts(exchange, plan, len(forms)))
