# SPDX-License-Identifier: Apache-2.0
"""The command horovodrun: Horovod's options, mapped onto one srun in the present allocation."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import horovod

from . import check_build, hosts

_EPILOG = """\
example, in a job of 2 nodes:
  salloc --nodes=2
  horovodrun -np 4 -H node1:2,node2:2 python train.py

It is short for: srun --mpi=pmix --ntasks=4 python train.py
"""

# Horovod's options that a job here does not need: the number of words after them, and the reason.
_WITHOUT_MEANING = {
    "--gloo": (0, "there is no Gloo"),
    "--mpi": (0, "there is no MPI"),
    "--jsrun": (0, "srun starts the ranks"),
    "--disable-cache": (0, "nothing is cached"),
    "--tcp": (0, "TCP is used unless there is RDMA; to use it anyway, set MPI_BRIDGE_NETWORK=tcp"),
    "--autotune": (0, "algorithms are chosen by a model measured at the start"),
    "--hierarchical-allreduce": (0, "the reduction follows the nodes of the job by itself"),
    "--hierarchical-allgather": (0, "the reduction follows the nodes of the job by itself"),
    "--timeline-mark-cycles": (0, "there are no cycles"),
    "--log-hide-timestamp": (0, "messages carry no time"),
    "--ssh-port": (1, "srun needs no ssh"),
    "--ssh-identity-file": (1, "srun needs no ssh"),
    "--start-timeout": (1, "set MPI_BRIDGE_TIMEOUT_SECONDS"),
    "--network-interfaces": (1, "set UCX_NET_DEVICES"),
    "--cycle-time-ms": (1, "there are no cycles"),
    "--cache-capacity": (1, "the plan of a step has no limit"),
    "--mpi-args": (1, "there is no MPI"),
    "--binding-args": (1, "srun binds the ranks; see --cpu-bind"),
}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    result = argparse.ArgumentParser(
        prog="horovodrun",
        description="Starts the ranks of a Horovod script with srun, in the present allocation.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = result.add_argument
    add("-v", "--version", action="version", version=horovod.__version__)
    add("-np", "--num-proc", dest="ranks", type=int, metavar="N", help="how many ranks")
    add("-H", "--hosts", metavar="HOST:SLOTS,...", help="where, and how many on each")
    add("-hostfile", "--hostfile", metavar="FILE", help="the same, with lines `HOST slots=N`")
    add("-cb", "--check-build", action="store_true", help="print what is there, and end")
    add("--verbose", action="store_true", help="print the command, and more from each rank")
    add("--output-filename", metavar="DIR", help="write DIR/rank.N/stdout and .../stderr")
    add("--fusion-threshold-mb", type=int, metavar="MB", help="the size of a bucket")
    add("--timeline-filename", metavar="PATH", help="write a timeline to PATH.RANK.json")
    add("--no-stall-check", action="store_true", help="report no stalled tensors")
    add("--stall-check-warning-time-seconds", type=int, metavar="S", help="when to report them")
    add("--stall-check-shutdown-time-seconds", type=int, metavar="S", help="when to fail then")
    add("--log-level", choices=["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL"])
    ignored = result.add_argument_group("accepted without effect")
    for option, (words, why) in _WITHOUT_MEANING.items():
        name = option.lstrip("-").replace("-", "_")
        if words:
            ignored.add_argument(option, dest=f"ignored_{name}", metavar="X", help=why)
        else:
            ignored.add_argument(option, dest=f"ignored_{name}", action="store_true", help=why)
    add("command", nargs=argparse.REMAINDER, metavar="COMMAND ...", help="the script to start")
    return result


def variables(options: argparse.Namespace) -> dict[str, str]:
    """Return the variables that the options add to the ranks' environment."""
    found = {
        "HOROVOD_TIMELINE": options.timeline_filename,
        "HOROVOD_STALL_CHECK_DISABLE": "1" if options.no_stall_check else None,
        "HOROVOD_STALL_CHECK_TIME_SECONDS": options.stall_check_warning_time_seconds,
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": options.stall_check_shutdown_time_seconds,
        "HOROVOD_LOG_LEVEL": options.log_level or ("INFO" if options.verbose else None),
    }
    if options.fusion_threshold_mb is not None:
        found["HOROVOD_FUSION_THRESHOLD"] = options.fusion_threshold_mb << 20
    return {name: str(value) for name, value in found.items() if value is not None}


def srun_arguments(options: argparse.Namespace, has_places: bool) -> list[str]:
    """Return the command that starts the ranks; SLURM_HOSTFILE says where each rank goes.

    SLURM_MPI_TYPE, which is srun's own variable, may ask for Slurm's PMI-2 instead of PMIx.
    """
    mpi = "pmi2" if os.environ.get("SLURM_MPI_TYPE") == "pmi2" else "pmix"
    arguments = ["srun", f"--mpi={mpi}", f"--ntasks={options.ranks}", "--kill-on-bad-exit=1"]
    if has_places:
        arguments.append("--distribution=arbitrary")
    if options.output_filename:
        directory = Path(options.output_filename)
        arguments.append(f"--output={directory}/rank.%t/stdout")
        arguments.append(f"--error={directory}/rank.%t/stderr")
    return [*arguments, "--", *options.command]


def _places(options: argparse.Namespace) -> list[str] | None:
    if options.hosts and options.hostfile:
        raise ValueError("give -H or --hostfile, not both")
    if options.hosts:
        return hosts.place(hosts.parse_list(options.hosts), options.ranks)
    if options.hostfile:
        lines = Path(options.hostfile).read_text().splitlines()
        return hosts.place(hosts.parse_file(lines), options.ranks)
    return None


def _require_allocation(environment: Mapping[str, str]) -> None:
    if shutil.which("srun") is None:
        raise ValueError(
            "horovodrun starts ranks with Slurm's srun, which is not on the PATH; without Slurm "
            "use any PMIx launcher, such as: mpirun -n 4 python train.py"
        )
    if "SLURM_JOB_ID" not in environment:
        raise ValueError(
            "horovodrun works inside of an allocation: run it in a batch script, under salloc, or "
            "use `srun --mpi=pmix -n 4 python train.py`"
        )


def _say_what_is_ignored(options: argparse.Namespace) -> None:
    for option, (_, why) in _WITHOUT_MEANING.items():
        if getattr(options, f"ignored_{option.lstrip('-').replace('-', '_')}"):
            print(f"horovodrun: {option} has no effect: {why}", file=sys.stderr)


def _start(options: argparse.Namespace) -> int:
    places = _places(options)
    _require_allocation(os.environ)
    environment = {**os.environ, **variables(options)}
    if options.output_filename:
        for rank in range(options.ranks):
            Path(options.output_filename, f"rank.{rank}").mkdir(parents=True, exist_ok=True)
    arguments = srun_arguments(options, places is not None)
    if options.verbose:
        print(f"horovodrun: {shlex.join(arguments)}", file=sys.stderr, flush=True)
    if places is None:
        os.execvpe(arguments[0], arguments, environment)
    # srun reads the file before it starts anything, so the file must exist until then.
    descriptor, path = tempfile.mkstemp(prefix="horovodrun.", suffix=".hosts", text=True)
    with os.fdopen(descriptor, "w") as file:
        file.writelines(f"{host}\n" for host in places)
    environment["SLURM_HOSTFILE"] = path
    try:
        return os.spawnvpe(os.P_WAIT, arguments[0], arguments, environment)
    finally:
        os.unlink(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    commands = parser()
    options = commands.parse_args(arguments)
    if options.check_build:
        text, is_there = check_build.report()
        print(text)
        return 0 if is_there else 1
    if options.command[:1] == ["--"]:
        del options.command[0]
    if options.ranks is None or options.ranks < 1 or not options.command:
        commands.error("say how many ranks and what to start: horovodrun -np 4 python train.py")
    _say_what_is_ignored(options)
    try:
        return _start(options)
    except (OSError, ValueError) as error:
        print(f"horovodrun: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
