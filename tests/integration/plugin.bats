#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The plugin in a real Slurm: --job-json for srun, sbatch and salloc, as an ordinary user.

bats_require_minimum_version 1.5.0
load lib

share=/shared/plugin-test

setup_file() {
    as_root_on login install -d -m 1777 "$share" "$share/data"
    as_user_on login bash -c "echo from-the-share > $share/data/file.txt"
}

# job NODES [SOURCE]: a job file at $share/job.json that mounts SOURCE and checks nothing else.
job() {
    as_user bash -c "cat > $share/job.json" << JSON
{
  "properties": {
    "nodeCount": $1,
    "stdOutErrPathPrefix": "\$AZ_BATCHAI_JOB_MOUNT_ROOT/data",
    "mountVolumes": {
      "unmanagedFileSystems": [
        {"mountCommand": "${2:-data}", "relativeMountPath": "data"}
      ]
    },
    "environmentVariables": [{"name": "COLOUR", "value": "blue"}],
    "customToolkitSettings": {"commandLine": "true"}
  }
}
JSON
    site_lua << LUA | as_user bash -c "cat > $share/site.lua"
return {
  named_mounts = {
    data = { directory = "$share/data" },
    gone = { directory = "$share/gone" },
  },
}
LUA
}

with_site() { as_user env "BATCHAI_SITE=$share/site.lua" "$@"; }

job_directory_is_on() { [[ -n $(job_directories_on "$1") ]]; }

# Breaks when the mount, the environment or the identity does not reach a task on some node.
@test "srun --job-json runs with the mounts and variables of the file on every node" {
    job 4
    run with_site srun --job-json="$share/job.json" bash -c \
        'echo "$(id -un) $COLOUR $AZ_BATCH_NODE_ID $(cat $AZ_BATCHAI_JOB_MOUNT_ROOT/data/file.txt)"'
    echo "$output"
    [[ $status -eq 0 ]]
    for host in h1 h2 h3 h4; do
        [[ $output == *"alice blue $host from-the-share"* ]]
    done
}

# Breaks when mounts are made in the host's namespace, or an anchor outlives its step.
@test "the mount is visible in the step only, and no anchor is left behind it" {
    job 1
    run with_site srun -w h1 --job-json="$share/job.json" bash -c \
        'grep -c " $AZ_BATCHAI_JOB_MOUNT_ROOT/data " /proc/self/mountinfo'
    [[ $status -eq 0 && $output == *1* ]]
    run as_root_on h1 grep -c /mounts/data /proc/self/mountinfo
    [[ $output == 0 ]]
    wait_until 60 nothing_is_queued
    wait_until 60 no_node_program h1
}

# Breaks when the filter does not set the sizes, or the inner srun does not inherit the plan.
@test "sbatch --job-json takes four nodes from the file and its srun has the mounts" {
    job 4
    run with_site sbatch --wait --output="$share/out.txt" --job-json="$share/job.json" --wrap \
        'cd /; echo nodes=$SLURM_JOB_NUM_NODES; srun bash -c "cat \$AZ_BATCHAI_JOB_MOUNT_ROOT/data/file.txt"'
    echo "$output"
    as_user cat "$share/out.txt"
    [[ $status -eq 0 ]]
    run as_user cat "$share/out.txt"
    [[ $output == *nodes=4* ]]
    [[ $(grep -c from-the-share <<< "$output") -eq 4 ]]
}

# Breaks when nodes do not learn the first one's port, it is not held, or an inner srun takes the
# numbers of the outer one.
@test "ranks of srun --job-json have numbers and a port that is held on the first node" {
    local names='$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR' out ports
    job 2
    as_user sed -i 's/"customToolkitSettings": {/"customMpiSettings": {"processCount": 4, /' \
        "$share/job.json"
    as_user bash -c "cat > $share/listen.pl" << 'PERL'
use IO::Socket::INET;
sub bound { IO::Socket::INET->new(LocalPort => $ENV{MASTER_PORT}, Listen => 1, ReuseAddr => shift) }
print "anybody can have it\n" if bound(0);
print "a rank can have it\n" if bound(1);
PERL
    run with_site srun --job-json="$share/job.json" bash -c \
        "echo \"$names \$MASTER_PORT\"; if [[ \$RANK -eq 0 ]]; then perl $share/listen.pl; fi"
    echo "$output"
    [[ $status -eq 0 ]]
    out=$output
    for rank in {0..3}; do [[ $out == *"$rank/4 $((rank % 2))/2 10.77.0.1 "* ]]; done
    ports=$(sed -n 's|.* 10.77.0.1 ||p' <<< "$out" | sort -u)
    lines_are 1 "$ports"
    [[ $out == *"a rank can have it"* && $out != *"anybody can"* ]]
    as_user bash -c "cat > $share/outer.sh && chmod 755 $share/outer.sh" << 'SCRIPT'
#!/bin/bash
echo outer $RANK/$WORLD_SIZE $MASTER_ADDR $MASTER_PORT
srun --overlap -n2 -N2 bash -c 'echo inner $RANK/$WORLD_SIZE $MASTER_PORT'
SCRIPT
    with_site sbatch --wait -w "h[1-2]" --output="$share/torch.txt" --job-json="$share/job.json" --wrap \
        "MASTER_PORT=5 srun --overlap -n1 -N1 $share/outer.sh"
    out=$(as_user cat "$share/torch.txt")
    echo "$out"
    [[ $out == *"outer 0/1 10.77.0.1 5"* ]]
    [[ $out == *"inner 0/2 5"* && $out == *"inner 1/2 5"* ]]
}

# Breaks when the plan does not travel through salloc's environment.
@test "a step inside salloc --job-json has the mounts" {
    job 2
    run with_site salloc --job-json="$share/job.json" srun --ntasks=1 --nodes=1 bash -c \
        'cat $AZ_BATCHAI_JOB_MOUNT_ROOT/data/file.txt; echo $SLURM_JOB_NUM_NODES'
    echo "$output"
    [[ $status -eq 0 && $output == *from-the-share* && $output == *2* ]]
}

# Breaks when the job's own option, which Slurm applies to each component of a step, is taken for that
# of a heterogeneous job, or for a new wish: the file's name means nothing in another directory.
@test "a step of several programs runs in the job's plan, and has none of its own" {
    job 2
    as_user cp "$share/job.json" "$share/other.json"
    as_user bash -c "cat > $share/several.sh" << SH
#!/bin/bash
cd / && srun -N1 -n1 printenv BATCHAI_SANDBOX : -N1 -n1 printenv BATCHAI_SANDBOX
echo "digest \$BATCHAI_PLAN_DIGEST"
srun --job-json=$share/other.json -N1 -n1 echo ran : -N1 -n1 echo ran
echo "status \$?"
SH
    with_site env -C "$share" sbatch --quiet --wait --output="$share/several.txt" --job-json=job.json several.sh
    run as_user cat "$share/several.txt"
    echo "$output"
    [[ $(grep -cxF "$(sed -n 's/^digest //p' <<< "$output")" <<< "$output") -eq 2 ]]
    [[ $output == *"heterogeneous jobs cannot have --job-json"*"status 1"* && $output != *ran* ]]
}

# Breaks when a fault is found only after the submission, or shown without its place.
@test "a bad file is refused with its position and nothing is submitted" {
    as_user bash -c "echo '{\"properties\": {\"nodeCout\": 1}}' > $share/bad.json"
    before=$(next_job)
    for command in "sbatch --wrap=true" "srun true" "salloc true"; do
        # shellcheck disable=SC2086
        run with_site ${command%% *} --job-json="$share/bad.json" ${command#* }
        echo "$output"
        [[ $status -ne 0 ]]
        [[ $output == *bad.json:1:*nodeCout* ]]
    done
    wait_until 60 nothing_is_queued
    [[ $(next_job) -eq $before ]]
}

# Breaks when an optional plugin's refusal is passed over: sbatch then submits the script without a
# plan.
@test "a bad file is refused where the site has no cli_filter" {
    as_user bash -c "echo '{\"properties\": {\"nodeCout\": 1}}' > $share/bad.json"
    slurm_conf_elsewhere /CliFilterPlugins/d | as_user bash -c "cat > $share/slurm.conf"
    before=$(next_job)
    for command in "sbatch --wrap=true" "srun true" "salloc true"; do
        # shellcheck disable=SC2086
        run as_user env "SLURM_CONF=$share/slurm.conf" ${command%% *} --job-json="$share/bad.json" ${command#* }
        echo "$output"
        [[ $status -ne 0 && $output == *nodeCout*"nothing is submitted"* ]]
    done
    [[ $(next_job) -eq $before ]]
}

# Breaks when the filter lets the command line silently win over the file, or the other way round.
@test "a contradiction between the command line and the file is refused with both values" {
    job 4
    run with_site sbatch -N2 --job-json="$share/job.json" --wrap=true
    echo "$output"
    [[ $status -ne 0 && $output == *2* && $output == *4* && $output == *nodeCount* ]]
    wait_until 60 nothing_is_queued
}

# Breaks when an inner srun is resized to the whole file.
@test "srun inside the allocation keeps the size that the user asks for" {
    job 2
    run with_site salloc --job-json="$share/job.json" srun -N1 -n1 --job-json="$share/job.json" \
        printenv SLURMD_NODENAME
    echo "$output"
    [[ $status -eq 0 ]]
    [[ $(grep -cE '^h[0-9]$' <<< "$output") -eq 1 ]]
}

# Breaks when the failure does not reach the user, the task runs bare, or a hook drains the node.
@test "a missing source ends the step with a message and drains no node" {
    job 2 gone
    run with_site srun --job-json="$share/job.json" echo ran
    echo "$output"
    [[ $status -ne 0 ]]
    [[ $output == *"batchai: node h"*"$share/gone"* ]]
    [[ $output != *ran* ]]
    run with_site sbatch --wait --output="$share/gone.txt" --job-json="$share/job.json" \
        --wrap='srun echo ran'
    [[ $status -ne 0 ]]
    run as_user cat "$share/gone.txt"
    [[ $output == *"$share/gone"* && $output != *ran* ]]
    no_node_is_drained
}

# Breaks when a task whose plan was lost runs on the bare host.
@test "a step without the plan is refused with the way out" {
    job 1
    run with_site srun --export=NONE --job-json="$share/job.json" /bin/echo ran
    echo "$output"
    [[ $status -ne 0 && $output == *--export* && $output != *ran* ]]
    no_node_is_drained
}

# Breaks when the sandbox hides PMIx's directories or changes the uid that PMIx compares.
@test "ranks are wired by PMIx inside the sandbox on four hosts" {
    needs_pmix
    put "$PMIX_RING" "$share/pmix_ring"
    job 4
    run with_site srun --mpi=pmix --job-json="$share/job.json" "$share/pmix_ring"
    echo "$output"
    [[ $status -eq 0 ]]
    lines_are 4 "$(grep -E 'rank' <<< "$output")"
}

# Breaks when a rank of any program can start its first fence while another node's slurmstepd is
# still starting tasks, as a user: about 1 of 30 such steps hung on a busy machine.
@test "ranks of several nodes start when the other nodes have started theirs" {
    if slurm_is_from 24.05; then skip "this Slurm's PMIx does not need it"; fi
    job 2
    as_user bash -c "cat > $share/ages.py" << 'PYTHON'
import os, time
def started(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
began = time.clock_gettime(time.CLOCK_BOOTTIME)
age = began - started("self")
try:
    least = min(1.4 * (started("self") - started(os.getppid())), 1)
except FileNotFoundError:
    least = 0.2  # slurmstepd is hidden from users
print("late enough" if age > least - 0.04 else f"after {age} s, which should be {least} s")
PYTHON
    run with_site srun --mpi=pmix --job-json="$share/job.json" /usr/bin/python3 "$share/ages.py"
    echo "$output"
    [[ $status -eq 0 ]]
    lines_are 2 "$(grep -x 'late enough' <<< "$output")"
}

# Breaks when the anchor is not part of what Slurm ends, or the epilog does not clean.
# no_node_program HOST: the clean-up after a job goes on alone for a while.
no_node_program() { as_root_on "$1" sh -c '! pgrep batchai-node'; }

@test "scancel leaves no process and no directory of the job on the node" {
    job 1
    id=$(with_site sbatch --parsable -w h2 --output=/dev/null --job-json="$share/job.json" \
        --wrap='srun sleep 600')
    wait_until 60 as_root_on h2 pgrep -x batchai-node
    wait_until 60 job_directory_is_on h2
    as_user scancel "$id"
    wait_until 60 nothing_is_queued
    wait_until 60 no_node_program h2
    wait_until 60 prints_nothing job_directories_on h2
    no_node_is_drained
}

# Breaks when the kill switch lets a job run without what it asked for, or touches other jobs.
@test "the kill switch refuses steps with the option and leaves others alone" {
    job 1
    run as_user env BATCHAI_DISABLE=1 srun --job-json="$share/job.json" echo ran
    echo "$output"
    [[ $status -ne 0 && $output == *BATCHAI_DISABLE* && $output != *ran* ]]
    run as_user env BATCHAI_DISABLE=1 srun echo ran
    [[ $status -eq 0 && $output == ran ]]
}

# Breaks when the plugin touches jobs that never asked for it.
@test "a job without the option is left alone" {
    run as_user srun -N2 bash -c 'echo "x$BATCHAI_SANDBOX$AZ_BATCH_NODE_ID"'
    [[ $status -eq 0 && $output == $'x\nx' ]]
}
