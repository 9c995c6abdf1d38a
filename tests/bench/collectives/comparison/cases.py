# SPDX-License-Identifier: GPL-2.0-or-later
"""What is compared with what: cases, libraries, and how each library is launched in each case."""

from __future__ import annotations

from dataclasses import dataclass

from harness.cluster import PROGRAMS, Command

KI = 1024
MI = 1024 * KI
_SIZES = (8, 64, 512, 4 * KI, 16 * KI, 64 * KI, 256 * KI, MI, 4 * MI, 16 * MI, 64 * MI)


@dataclass(frozen=True)
class Case:
    """Some ranks on some hosts of the test cluster."""

    key: str
    title: str
    ranks: int
    hosts: int
    sizes: tuple[int, ...]

    def bus_bandwidth(self, size: int, microseconds: float) -> float:
        """GB/s that each rank must send and receive at least: nccl-tests' definition."""
        return 2 * (self.ranks - 1) / self.ranks * size / (microseconds * 1000)


CASES = (
    Case("node2", "2 ranks on one host", 2, 1, (*_SIZES, 256 * MI)),
    Case("node4", "4 ranks on one host of 2 cores", 4, 1, (*_SIZES, 256 * MI)),
    Case("hosts4", "4 hosts over TCP, one rank each", 4, 4, _SIZES),
)


@dataclass(frozen=True)
class Candidate:
    """A library with its settings."""

    key: str
    label: str
    family: str  # whose launcher starts it: mpi_bridge, open_mpi, mpich or gloo
    variant: str = "default"
    settings: tuple[str, ...] = ()
    settings_over_tcp: tuple[str, ...] = ()

    @property
    def ours(self) -> bool:
        return self.family == "mpi_bridge"

    @property
    def program(self) -> str:
        return f"bench_{self.family}"


# Open MPI's UCX component declines hosts without InfiniBand unless told that any device will do.
_ANY_UCX = ("OMPI_MCA_pml=ucx", "OMPI_MCA_pml_ucx_tls=any", "OMPI_MCA_pml_ucx_devices=any")
_UCX_TCP = "UCX_TLS=tcp,self"
# What mpirun sets itself when ranks outnumber cores; srun cannot know that hosts share two cores.
_YIELD = "OMPI_MCA_mpi_yield_when_idle=1"

CANDIDATES = (
    Candidate("ours", "mpi_bridge", "mpi_bridge", "private", (), (_UCX_TCP,)),
    Candidate("ours_shared", "mpi_bridge, mpib_alloc", "mpi_bridge", "shared", (), (_UCX_TCP,)),
    Candidate("ours_engine", "mpi_bridge, engine", "mpi_bridge", "engine", (), (_UCX_TCP,)),
    Candidate("ours_call", "mpi_bridge, mpib_call", "mpi_bridge", "call", (), (_UCX_TCP,)),
    Candidate(
        "open_mpi",
        "Open MPI",
        "open_mpi",
        settings_over_tcp=("OMPI_MCA_pml=ob1", "OMPI_MCA_btl=tcp,self", _YIELD),
    ),
    Candidate(
        "open_mpi_ucx",
        "Open MPI, UCX",
        "open_mpi",
        settings=_ANY_UCX,
        settings_over_tcp=(*_ANY_UCX, _UCX_TCP, _YIELD),
    ),
    Candidate("mpich", "MPICH", "mpich", settings_over_tcp=(_UCX_TCP,)),
    Candidate("gloo_ring", "Gloo, ring", "gloo", "ring"),
    Candidate("gloo_bcube", "Gloo, bcube", "gloo", "bcube"),
)


def _program(candidate: Candidate, sizes: tuple[int, ...], seconds: float) -> list[str]:
    path = f"{PROGRAMS}/{candidate.program}"
    return [path, candidate.variant, "pinned", str(seconds), *map(str, sizes)]


def _srun(case: Case, mpi: str) -> list[str]:
    where = ["--nodelist=h1"] if case.hosts == 1 else []
    return ["srun", f"-N{case.hosts}", f"-n{case.ranks}", *where, f"--mpi={mpi}", "--mem=0"]


def launch(case: Case, candidate: Candidate, sizes: tuple[int, ...], seconds: float) -> Command:
    """The command that runs one block: all sizes of one library.

    On one host each MPI is started by its own mpirun, on that host, so that it binds and yields as
    it is meant to; between hosts all are started through Slurm, MPICH by its own launcher under it
    (under srun --mpi=pmi2 of Slurm 22.05 its MPI_Finalize can wait for ever).
    """
    program = _program(candidate, sizes, seconds)
    one_host = case.hosts == 1
    settings = candidate.settings if one_host else candidate.settings_over_tcp
    if candidate.family == "mpi_bridge":
        settings = (f"LD_LIBRARY_PATH={PROGRAMS}", *settings)
        return Command((*_srun(case, "pmix"), *program), settings)
    if candidate.family == "gloo":
        # Its ranks meet through files, in a directory that no other run has used.
        meet = ["sh", "-c", 'BENCH_MEETING=$(mktemp -d -p /shared) exec "$@"', "sh"]
        settings = (f"BENCH_INTERFACE={'lo' if one_host else 'eth0'}",)
        return Command((*meet, *_srun(case, "none"), *program), settings)
    if candidate.family == "open_mpi" and one_host:
        run = ("mpirun.openmpi", "--oversubscribe", "-n", str(case.ranks))
        return Command((*run, *program), settings, "h1")
    if candidate.family == "open_mpi":
        return Command((*_srun(case, "pmix"), *program), settings)
    if one_host:
        return Command(("mpiexec.mpich", "-n", str(case.ranks), *program), settings, "h1")
    allocation = ("salloc", "--quiet", f"-N{case.hosts}", f"-n{case.ranks}", "--mem=0")
    return Command((*allocation, "mpiexec.mpich", "-bootstrap", "slurm", *program), settings)
