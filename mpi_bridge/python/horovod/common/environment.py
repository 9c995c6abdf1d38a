# SPDX-License-Identifier: Apache-2.0
"""What Horovod's environment variables mean here.

A variable keeps its meaning if the library reads it itself or if its value is passed on to the
library's own variable (which wins if both are set). Otherwise it has no meaning, and rank 0 reports
that once, if messages of level info are wanted. docs/horovod.md shows the same table.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping

# Read by libmpi_bridge under these names.
READ_BY_THE_LIBRARY = (
    "HOROVOD_FUSION_THRESHOLD",
    "HOROVOD_STALL_CHECK_DISABLE",
    "HOROVOD_STALL_CHECK_TIME_SECONDS",
    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
    "HOROVOD_TIMELINE",
)

# Passed on before the library is initialised.
HANDED_ON = {
    "HOROVOD_LOG_LEVEL": "MPI_BRIDGE_LOG",
    "HOROVOD_GLOO_TIMEOUT_SECONDS": "MPI_BRIDGE_TIMEOUT_SECONDS",
}

_LOG_LEVELS = {
    "trace": "debug",
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "error": "error",
    "fatal": "error",
}

_NO_CYCLE = "operations start when all ranks have submitted them, not in cycles"
_NO_TUNING = "algorithms are chosen by a model measured at the start"
_TOPOLOGY = "the reduction follows the nodes of the job by itself"
_ONE_BACK_END = "there is one back end for host memory"
_NCCL = "NCCL is set by its own NCCL_* variables"

# Accepted, with the reason why they have no effect.
WITHOUT_MEANING = {
    "HOROVOD_CYCLE_TIME": _NO_CYCLE,
    "HOROVOD_TIMELINE_MARK_CYCLES": _NO_CYCLE,
    "HOROVOD_CACHE_CAPACITY": "the plan of a step has no limit",
    "HOROVOD_AUTOTUNE": _NO_TUNING,
    "HOROVOD_AUTOTUNE_LOG": _NO_TUNING,
    "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": _NO_TUNING,
    "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": _NO_TUNING,
    "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": _NO_TUNING,
    "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE": _NO_TUNING,
    "HOROVOD_HIERARCHICAL_ALLREDUCE": _TOPOLOGY,
    "HOROVOD_HIERARCHICAL_ALLGATHER": _TOPOLOGY,
    "HOROVOD_TORUS_ALLREDUCE": _TOPOLOGY,
    "HOROVOD_BATCH_D2D_MEMCOPIES": _NCCL,
    "HOROVOD_NUM_NCCL_STREAMS": _NCCL,
    "HOROVOD_ENABLE_ASYNC_COMPLETION": _NCCL,
    "HOROVOD_DISABLE_NVTX_RANGES": "no NVTX ranges are written; use the timeline",
    "HOROVOD_CPU_OPERATIONS": _ONE_BACK_END,
    "HOROVOD_CONTROLLER": "there is no controller",
    "HOROVOD_GLOO_IFACE": "set UCX_NET_DEVICES",
    "HOROVOD_MPI_THREADS_DISABLE": "any thread may call",
    "HOROVOD_CCL_CACHE": _ONE_BACK_END,
    "HOROVOD_THREAD_AFFINITY": "the launcher binds the ranks",
    "HOROVOD_DISABLE_GROUP_FUSION": "a group runs by itself, whatever is beside it",
    "HOROVOD_DYNAMIC_PROCESS_SETS": "process sets can be added and removed at any time",
    "HOROVOD_ADASUM_MPI_CHUNK_SIZE": "Adasum sends each tensor in one piece",
    "HOROVOD_ENABLE_XLA_OPS": "there are no custom calls of XLA",
    "HOROVOD_ELASTIC": "hvd.elastic.run works without it",
    "HOROVOD_LOG_HIDE_TIME": "messages carry no time",
}

_said = False


def apply(environment: MutableMapping[str, str] = os.environ) -> None:
    """Pass values on to the library's own variables. Call it before the library is initialised."""
    for theirs, ours in HANDED_ON.items():
        value = environment.get(theirs)
        if not value or environment.get(ours):
            continue
        if theirs == "HOROVOD_LOG_LEVEL":
            if value.lower() not in _LOG_LEVELS:
                raise ValueError(f"HOROVOD_LOG_LEVEL={value!r} is none of {', '.join(_LOG_LEVELS)}")
            value = _LOG_LEVELS[value.lower()]
        environment[ours] = value


def without_meaning(environment: MutableMapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that are set and have no meaning here, with the reason."""
    return {name: why for name, why in WITHOUT_MEANING.items() if environment.get(name)}


def say_what_has_no_meaning(rank: int, environment: MutableMapping[str, str] = os.environ) -> None:
    """Let rank 0 report, once and at level info, which variables have no effect."""
    global _said
    if _said or rank != 0 or environment.get("MPI_BRIDGE_LOG") not in ("info", "debug"):
        return
    _said = True
    for name, why in without_meaning(environment).items():
        print(f"horovod: info: {name} has no effect: {why}", file=sys.stderr, flush=True)
