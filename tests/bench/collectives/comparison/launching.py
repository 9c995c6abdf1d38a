# SPDX-License-Identifier: GPL-2.0-or-later
"""How each library's ranks are started in each case.

On one host each MPI is started by its own mpirun, on that host, so that it binds and yields as it
is meant to; between hosts all are started through Slurm: Open MPI by srun, MPICH and Intel MPI by
their own launcher under it (under srun --mpi=pmi2 of Slurm 22.05 MPICH's MPI_Finalize can wait for
ever). All of a case share one allocation, and their steps its cores.
"""

from __future__ import annotations

from harness import wheels
from harness.cluster import PROGRAMS, Command

from .candidates import LIMIT, Candidate
from .cases import Case

ONE_HOST = "h1"


def ranks(case: Case, candidate: Candidate) -> int:
    return 2 if candidate.family == LIMIT else case.ranks


def allocation(case: Case) -> tuple[str, ...]:
    """A command that gets the hosts, says so in variables, and keeps them."""
    where = () if case.over_network else (f"--nodelist={ONE_HOST}",)
    size = (f"-N{case.hosts}", f"-n{case.ranks}", *where, "--mem=0", "--time=1440")
    return ("salloc", "--quiet", *size, "sh", "-c", "env; echo; exec sleep infinity")


def _srun(case: Case, candidate: Candidate, mpi: str) -> tuple[str, ...]:
    count = ranks(case, candidate)
    hosts = min(case.hosts, count)
    return ("srun", "--overlap", f"-N{hosts}", f"-n{count}", f"--mpi={mpi}", "--mem=0")


def _in_place(extra: str, name: str) -> str:
    return str(wheels.prefix(extra) / "bin" / name)


def _intel_settings() -> tuple[str, ...]:
    """libccl.so.1 of oneccl-cpu is the one that must be found, see requirements.txt."""
    folders = [wheels.prefix(extra) / "lib" for extra in ("one_ccl", "one_ccl_loader", "intel_mpi")]
    path = ":".join(map(str, folders))
    return (f"I_MPI_ROOT={wheels.prefix('intel_mpi')}", f"LD_LIBRARY_PATH={path}")


def _hydra(case: Case, launcher: str) -> tuple[tuple[str, ...], str]:
    if case.over_network:
        return (launcher, "-bootstrap", "slurm", "-n", str(case.ranks)), "login"
    return (launcher, "-n", str(case.ranks)), ONE_HOST


def launch(case: Case, candidate: Candidate, meeting: str, allocated: tuple[str, ...]) -> Command:
    """The command of a session; `meeting` is a new folder that all hosts see."""
    program = (f"{PROGRAMS}/{candidate.program(case)}", "--variant", candidate.variant)
    program += ("--session", meeting)
    settings = candidate.settings(case)
    # Hydra's own srun takes its options from variables.
    in_allocation = (*allocated, "SLURM_OVERLAP=1")
    family = candidate.family
    if family == "mpi_bridge":
        settings += (f"LD_LIBRARY_PATH={PROGRAMS}", *in_allocation)
        return Command((*_srun(case, candidate, "pmix"), *program), settings)
    if family in ("gloo", LIMIT):
        settings += (f"BENCH_MEETING={meeting}", f"BENCH_RANKS={case.ranks}", *in_allocation)
        settings += (f"BENCH_INTERFACE={'eth0' if case.over_network else 'lo'}",)
        return Command((*_srun(case, candidate, "none"), *program), settings)
    if family.startswith("open_mpi"):
        if case.over_network:
            return Command((*_srun(case, candidate, "pmix"), *program), (*settings, *in_allocation))
        old = family == "open_mpi"
        mpirun = "mpirun.openmpi" if old else _in_place(family, "mpirun")
        crowd = ("--oversubscribe",) if old else ("--map-by", ":OVERSUBSCRIBE")
        return Command((mpirun, *crowd, "-n", str(case.ranks), *program), settings, ONE_HOST)
    if family == "mpich":
        launcher = "mpiexec.mpich"
    else:
        launcher = _in_place("mpich5" if family == "mpich5" else "intel_mpi", "mpiexec.hydra")
    if family in ("intel_mpi", "one_ccl"):
        settings += _intel_settings()
    words, host = _hydra(case, launcher)
    if case.over_network:
        settings += in_allocation
    return Command((*words, *program), settings, host)
