# SPDX-License-Identifier: GPL-2.0-or-later
"""The libraries that are compared, each with the settings that its documentation calls fastest."""

from __future__ import annotations

from dataclasses import dataclass

from .cases import COLLECTIVES, Case

LIMIT = "limit"
# mpi_bridge's, see mpi_bridge/select/algorithms.hpp.
ALLREDUCE_ALGORITHMS = (
    "recursive_doubling",
    "recursive_quadrupling",
    "halving_doubling",
    "direct",
    "ring",
)


@dataclass(frozen=True)
class Candidate:
    """A library with its settings."""

    key: str
    label: str
    family: str  # says which program it is, and whose launcher starts it
    variant: str = "default"
    on_one_host: tuple[str, ...] = ()
    when_crowded: tuple[str, ...] = ()
    over_tcp: tuple[str, ...] = ()
    collectives: tuple[str, ...] = COLLECTIVES
    algorithm: str = ""  # ours only: pinned, to tell what the model's choice costs

    @property
    def ours(self) -> bool:
        return self.family == "mpi_bridge"

    @property
    def peer(self) -> bool:
        return not self.ours and self.family != LIMIT

    def settings(self, case: Case) -> tuple[str, ...]:
        where = self.over_tcp if case.over_network else self.on_one_host
        return (*where, *(self.when_crowded if case.crowded else ()))

    def program(self, case: Case) -> str:
        if self.family == LIMIT:
            return "bench_limit_tcp" if case.over_network else "bench_limit_copy"
        return f"bench_{self.family}"

    def takes_part(self, case: Case, collective: str) -> bool:
        """On one host ranks share memory, and no algorithm of messages is chosen."""
        return collective in self.collectives and (case.over_network or not self.algorithm)


# Open MPI's UCX component declines hosts without InfiniBand unless told that any device will do.
_ANY_UCX = ("OMPI_MCA_pml=ucx", "OMPI_MCA_pml_ucx_tls=any", "OMPI_MCA_pml_ucx_devices=any")
_OB1_TCP = ("OMPI_MCA_pml=ob1", "OMPI_MCA_btl=tcp,self")
_UCX_TCP = "UCX_TLS=tcp,self"
# What mpirun sets itself when ranks outnumber cores; srun cannot know that hosts share two cores.
_OPEN_MPI_YIELDS = ("OMPI_MCA_mpi_yield_when_idle=1",)
_MPICH_YIELDS = ("MPIR_CVAR_POLLS_BEFORE_YIELD=1",)
# Sleeping for no time is how it gives its core to another rank.
_INTEL_YIELDS = ("I_MPI_THREAD_YIELD=3", "I_MPI_THREAD_SLEEP=0")
_INTEL_SHM = ("I_MPI_FABRICS=shm",)
_INTEL_TCP = ("I_MPI_FABRICS=ofi", "FI_PROVIDER=tcp")
# Its workers want cores that the ranks do not use. Here is none: the ranks do their work.
_CCL = ("CCL_ATL_TRANSPORT=mpi", "CCL_WORKER_OFFLOAD=0", "CCL_LOG_LEVEL=error")


def _ours(key: str, label: str, variant: str) -> Candidate:
    return Candidate(key, label, "mpi_bridge", variant, over_tcp=(_UCX_TCP,))


def _pinned(algorithm: str) -> Candidate:
    return Candidate(
        f"ours_{algorithm}",
        f"mpi_bridge, {algorithm}",
        "mpi_bridge",
        "private",
        over_tcp=(_UCX_TCP, f"MPI_BRIDGE_ALLREDUCE={algorithm}"),
        collectives=("allreduce",),
        algorithm=algorithm,
    )


CANDIDATES = (
    Candidate(LIMIT, "limit", LIMIT),
    _ours("ours", "mpi_bridge", "private"),
    _ours("ours_shared", "mpi_bridge, mpib_alloc", "shared"),
    _ours("ours_engine", "mpi_bridge, engine", "engine"),
    _ours("ours_call", "mpi_bridge, mpib_call", "call"),
    *(_pinned(algorithm) for algorithm in ALLREDUCE_ALGORITHMS),
    Candidate("open_mpi", "Open MPI 4", "open_mpi", "default", (), _OPEN_MPI_YIELDS, _OB1_TCP),
    Candidate(
        "open_mpi_ucx",
        "Open MPI 4, UCX",
        "open_mpi",
        "default",
        _ANY_UCX,
        _OPEN_MPI_YIELDS,
        (*_ANY_UCX, _UCX_TCP),
    ),
    Candidate("open_mpi5", "Open MPI 5", "open_mpi5", "default", (), _OPEN_MPI_YIELDS, _OB1_TCP),
    Candidate(
        "open_mpi5_ucx",
        "Open MPI 5, UCX",
        "open_mpi5",
        "default",
        _ANY_UCX,
        _OPEN_MPI_YIELDS,
        (*_ANY_UCX, _UCX_TCP),
    ),
    Candidate("mpich", "MPICH 4", "mpich", over_tcp=(_UCX_TCP,)),
    Candidate("mpich5", "MPICH 5", "mpich5", "default", (), _MPICH_YIELDS, (_UCX_TCP,)),
    Candidate(
        "intel_mpi", "Intel MPI", "intel_mpi", "default", _INTEL_SHM, _INTEL_YIELDS, _INTEL_TCP
    ),
    Candidate(
        "one_ccl",
        "oneCCL",
        "one_ccl",
        "default",
        (*_CCL, *_INTEL_SHM),
        _INTEL_YIELDS,
        (*_CCL, *_INTEL_TCP, "CCL_KVS_IFACE=eth0"),
    ),
    Candidate("gloo_ring", "Gloo, ring", "gloo", "ring"),
    # The algorithms differ in allreduce alone.
    Candidate("gloo_bcube", "Gloo, bcube", "gloo", "bcube", collectives=("allreduce",)),
)
BY_KEY = {candidate.key: candidate for candidate in CANDIDATES}
