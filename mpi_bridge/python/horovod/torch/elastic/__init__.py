# SPDX-License-Identifier: Apache-2.0
"""Elastic training with PyTorch: `@hvd.elastic.run` around `train(state, ...)`.

docs/elastic.md says which failures it survives, and how a job declares that it is elastic.
"""

from __future__ import annotations

from typing import Any, Callable

from ...common import basics
from ...common.elastic import HostsUpdatedInterrupt, HostUpdateResult, ObjectState, State, run_fn
from .sampler import ElasticSampler
from .state import TorchState


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a training function whose first argument is its State; call it after init().

    Before the function runs, the state is that of the last commit of an earlier step of this job,
    if there was one, and equal on all ranks. If an operation fails and all ranks are alive, the
    state goes back to the last commit and the function is called again. If the hosts of the job
    are to change, the ranks end after a commit, and the next step goes on from there.
    """
    return run_fn(func, _reset)


def _reset() -> None:
    basics.shutdown()
    basics.init()


__all__ = [
    "ElasticSampler",
    "HostUpdateResult",
    "HostsUpdatedInterrupt",
    "ObjectState",
    "State",
    "TorchState",
    "run",
]
