# SPDX-License-Identifier: GPL-2.0-or-later
"""The traits that a site may have beyond a plain Slurm: what `minicluster up --with` names.

Each trait is a row here: what it is called, what it means, and its lines of slurm.conf, which
replace those of the same key. Other code checks for a trait with Cluster.has().
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

from . import control_group, settings
from .layout import Cluster
from .report import ClusterError


class Trait(NamedTuple):
    name: str
    words: str
    slurm_conf: tuple[str, ...] = ()
    # Why a strict site does not have it here; "": it does.
    not_here: str = ""


# Beside /etc/slurm, because hosts of a configless site have none.
_PROGRAMS = "/etc/site"

# Keys of slurm.conf with lists, to which a trait adds.
_LISTS = ("AuthInfo", "SchedulerParameters", "SlurmctldParameters")

# In seconds, with the trait `requeue`. Before Slurm 25.11, credentials live no longer than this,
# and a busy machine needs some of it to start a step.
REQUEUE_DELAY = 20

_BY_CONTROL_GROUP = ("ProctrackType=proctrack/cgroup", "TaskPlugin=task/cgroup")

TRAITS = (
    Trait("hidepid", "users see their own processes only (/proc with hidepid=2)"),
    Trait("noexec", "nothing in /tmp can be executed"),
    Trait(
        "nofile",
        "jobs may open 1,024 files unless they raise the limit",
        ("PropagateResourceLimits=NONE",),
    ),
    Trait("hostnames", "the names of hosts are not those of nodes: h1 is the host node-h1"),
    Trait(
        "slurmds",
        "two nodes on a host, each with a slurmd of its own: h1 and h2 on the host h1, h3 and h4 on"
        " h3",
        (
            "SlurmdSpoolDir=/var/lib/slurm/slurmd/%n",
            "SlurmdPidFile=/run/slurm/slurmd-%n.pid",
            "SlurmdLogFile=/run/slurm/slurmd-%n.log",
            # Else Slurm's PMIx makes the same directory for each node of a step, and fails.
            "TmpFS=/tmp/slurm-%n",
        ),
        "tests end and power off the host of one node",
    ),
    Trait(
        "prolog",
        "a prolog and an epilog that take 2 s, a prolog of tasks that sets variables, and a health"
        " check",
        (
            f"Prolog={_PROGRAMS}/prolog",
            f"Epilog={_PROGRAMS}/epilog",
            f"TaskProlog={_PROGRAMS}/task_prolog",
            "PrologFlags=Alloc,Contain",
            f"HealthCheckProgram={_PROGRAMS}/health_check",
            "HealthCheckInterval=30",
        ),
    ),
    Trait(
        "limits",
        "accounting enforces associations, limits and QOS",
        ("AccountingStorageEnforce=associations,limits,qos,safe",),
    ),
    Trait(
        "private",
        "Slurm shows users their own jobs and accounts only",
        ("PrivateData=accounts,events,jobs,reservations,usage,users",),
    ),
    Trait(
        "tmpfs",
        "each job has a /tmp of its own (job_container/tmpfs)",
        ("JobContainerType=job_container/tmpfs", "PrologFlags=Alloc,Contain"),
        # It binds the namespace of a new process to a file, which the kernel allows only if that
        # has a higher number than its own. From 6.18 on, processors number them independently.
        "Linux 6.18 and later refuse it now and then (_create_ns: Invalid argument)",
    ),
    Trait(
        "cgroup1",
        "Slurm tracks processes, and limits memory and devices, by control groups of version 1",
        (*_BY_CONTROL_GROUP, "JobAcctGatherType=jobacct_gather/cgroup"),
    ),
    Trait(
        "cgroup2",
        "Slurm tracks processes, and limits devices, by control groups of version 2; with affinity"
        " cores and memory, too, on a machine that has these controllers there",
        _BY_CONTROL_GROUP,
        "a host has one version of control groups",
    ),
    Trait(
        "affinity",
        "Slurm binds tasks to cores (task/affinity), of which a node has no more than the machine",
        ("TaskPlugin=task/affinity",),
        "a node with fewer CPUs has no room for most of the tests",
    ),
    Trait(
        "cpus",
        "nodes are shared by CPU and memory, jobs get memory by the node, and there is a topology",
        (
            "SelectTypeParameters=CR_CPU_Memory",
            "DefMemPerNode=2048",
            "DefMemPerCPU=",
            "TopologyPlugin=topology/tree",
        ),
    ),
    Trait(
        "remote",
        "homes and /shared are on a file server: slow names, a cache for each host, and root has no"
        " rights there, except on the login host",
    ),
    Trait(
        "backup",
        "h1 has a slurmctld that takes over when that of the login host is gone for 5 s",
        ("SlurmctldTimeout=5",),
    ),
    Trait(
        "pmix",
        "ranks get PMIx unless they ask for another PMI; steps of salloc run on the nodes",
        ("MpiDefault=pmix", "LaunchParameters=use_interactive_step,enable_nss_slurm"),
    ),
    Trait(
        "configless",
        "hosts without a slurmctld have no /etc/slurm: their slurmd fetches it from the controller",
        # Without a directory, so that it is looked for beside the slurm.conf that a host has.
        ("SlurmctldParameters=enable_configless", "PlugStackConfig="),
    ),
    Trait(
        "lua",
        "the site has scripts of its own for job_submit and cli_filter, which load ours",
        ("JobSubmitPlugins=lua", "CliFilterPlugins=lua"),
    ),
    Trait(
        "large",
        "nodes have twice the CPUs, array jobs may have 20,000 tasks, and 40,000 jobs may wait",
        ("MaxArraySize=20001", "MaxJobCount=40000"),
    ),
    # Which lines those are depends on Slurm's release: slurm_config.py.
    Trait(
        "requeue",
        f"a job that is queued again waits for {REQUEUE_DELAY} s instead of two minutes, and may be"
        " expedited from Slurm 25.11 on",
        not_here="tests look at jobs that wait until they run again",
    ),
)
NAMES = tuple(trait.name for trait in TRAITS)
STRICT = tuple(trait.name for trait in TRAITS if not trait.not_here)

# The file system of `remote`, which hosts run, and what it is told (remote_fs.cpp). Tests write
# other words there.
_FAULTS = "delay 2\n"

_FILES = {
    "prolog": "#!/bin/sh\nsleep 2\n",
    "epilog": "#!/bin/sh\nsleep 2\n",
    "task_prolog": "#!/bin/sh\necho 'export SITE_TASK_PROLOG=1'\n",
    "health_check": "#!/bin/sh\nexit 0\n",
}


_JOB_SUBMIT = """\
-- The site's own script. What slurmctld calls is seen in the job's AdminComment.
function slurm_job_submit(job, partitions, submit_uid)
    if not job.account or job.account == "" then job.account = "research" end
    if not job.partition or job.partition == "" then job.partition = "main" end
    job.admin_comment = "site"
    slurm.log_info("site: a job of user %s", submit_uid)
    return slurm.SUCCESS
end

function slurm_job_modify(change, job, partitions, modify_uid)
    slurm.log_info("site: a change by user %s", modify_uid)
    return slurm.SUCCESS
end
"""

_CLI_FILTER = """\
-- The site's own script. What its functions do is seen in a job: Account, Comment and DelayBoot.
function slurm_cli_setup_defaults(options, early_pass)
    options.account = "research"
    options.comment = "default of the site"
    return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
    options["delay-boot"] = "7"
    return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
    slurm.log_verbose("site: job %s", job_id)
    return slurm.SUCCESS
end
"""

# The scripts of a site with the trait `lua`, by the names that Slurm gives them.
LUA_SCRIPTS = {"job_submit.lua": _JOB_SUBMIT, "cli_filter.lua": _CLI_FILTER}


def check(cluster: Cluster) -> None:
    """Refuses names that are not traits."""
    for name in cluster.traits:
        if name not in NAMES:
            raise ClusterError(
                f"{name!r} is not a trait of a site", hint=f"the traits: {', '.join(NAMES)}"
            )
    if cluster.has("slurmds") and cluster.power_saving:
        raise ClusterError(
            "Slurm cannot switch off one of two nodes on a host",
            hint="start the cluster without the trait slurmds, or without --power-saving",
        )


def prepare(cluster: Cluster) -> None:
    """Makes what hosts need when they start."""
    if not cluster.has("remote"):
        return
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True, check=False
    )
    if flags.returncode != 0:
        raise ClusterError("libfuse3-dev is not installed", hint="run scripts/setup")
    remote_fs = cluster.remote / "remote_fs"
    cluster.remote.mkdir()
    (cluster.remote / "faults").write_text(_FAULTS)
    source = Path(__file__).with_name("remote_fs.cpp")
    command = ["c++", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(remote_fs)]
    subprocess.run([*command, str(source), *flags.stdout.split()], check=True)


def mount_remote(cluster: Cluster, name: str, target: Path, squash: bool) -> None:
    """Shows a directory of the cluster as one of a file server, in this process's namespace."""
    words = [cluster.remote / "remote_fs", cluster.directory / name, cluster.remote / "faults"]
    done = subprocess.run(
        [*map(str, words), str(target), *(["squash"] if squash else [])],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ClusterError(f"/{name} cannot be mounted: {done.stderr.strip()}")


def _own(cluster: Cluster) -> list[Trait]:
    return [trait for trait in TRAITS if cluster.has(trait.name)]


def apply(cluster: Cluster, lines: list[str], of_release: list[str]) -> list[str]:
    """The lines of slurm.conf with those of the traits in their place; `KEY=` takes KEY out.

    `of_release` are lines of traits that depend on Slurm's release.
    """
    wanted: dict[str, str] = {}
    for line in [*(each for trait in _own(cluster) for each in trait.slurm_conf), *of_release]:
        key, value = line.split("=", 1)
        wanted[key] = f"{wanted[key]},{value}" if key in _LISTS and key in wanted else value
    if cluster.has("affinity") and control_group.version(cluster):
        wanted["TaskPlugin"] = "task/cgroup,task/affinity"
    for key, value in (line.split("=", 1) for line in lines):
        if key in wanted and key in _LISTS:
            wanted[key] = f"{value},{wanted[key]}"
    kept = [line for line in lines if line.split("=", 1)[0] not in wanted]
    return [f"{key}={value}" for key, value in wanted.items() if value] + kept


def configure(cluster: Cluster) -> None:
    """Writes the programs and files that the lines name, or removes them."""
    slurm = cluster.etc / "slurm"
    if cluster.has("prolog"):
        for name, text in _FILES.items():
            settings.put(cluster.etc / Path(_PROGRAMS).name / name, text, mode=0o755)
    files = {}
    if cluster.has("tmpfs"):
        files["job_container.conf"] = "AutoBasePath=true\nBasePath=/var/lib/slurm/containers\n"
    if cluster.has("cpus"):
        half = max(cluster.nodes // 2, 1)
        rest = f"SwitchName=s2 Nodes=h[{half + 1}-{cluster.nodes}]\n" if cluster.nodes > 1 else ""
        switches = "s[1-2]" if rest else "s1"
        files["topology.conf"] = (
            f"SwitchName=s1 Nodes=h[1-{half}]\n{rest}SwitchName=top Switches={switches}\n"
        )
    for name in ("job_container.conf", "topology.conf"):
        if name in files:
            settings.put(slurm / name, files[name])
        else:
            (slurm / name).unlink(missing_ok=True)
