#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The simulated cluster itself: if it is not what it claims to be, no other suite means anything.

bats_require_minimum_version 1.5.0
load lib

# Column $1 of standard input has as many different values as there are lines.
all_differ() {
    local values
    values=$(awk -v column="$1" '{print $column}')
    [[ -n $values ]] && prints_nothing uniq -d <<< "$(sort <<< "$values")"
}

# Breaks when a slurmd does not register, or the default partition loses a host.
@test "four hosts are idle in the default partition" {
    wait_until 60 nodes_idle 4
    run as_user sinfo -h -o %P
    [[ $output == *"main*"* && $output == *debug* ]]
}

# Breaks when hosts share a UTS, network or mount namespace.
@test "hosts have different names, addresses and temporary directories" {
    run --separate-stderr as_user srun -N4 --ntasks-per-node=1 \
        bash -c 'echo "$(hostname) $(hostname -I) $(stat -c %d /tmp) $(stat -c %d /dev/shm)"'
    [[ $status -eq 0 ]]
    lines_are 4 "$output"
    for column in 1 2 3 4; do
        all_differ "$column" <<< "$output"
    done
}

# Breaks when the PID namespaces are shared or /proc shows the machine's processes.
@test "a host sees its own daemons only" {
    # While it forks for an epilog, there are two for a moment.
    wait_until 60 one_slurmd_runs
    # Some sites have a second controller on h1.
    run as_root_on h2 pgrep -x slurmctld
    [[ $status -ne 0 ]]
}

one_slurmd_runs() { [[ $(as_root_on h1 pgrep -c -x "$(slurmd_pattern)") == 1 ]]; }

# Breaks when /tmp is one directory for all hosts, or /shared is not.
@test "a file in /tmp stays on its host and a file in /shared is on all" {
    as_user_on h1 touch /tmp/here-only "/shared/everywhere-$$"
    as_user_on h1 test -e /tmp/here-only
    run as_user_on h2 test -e /tmp/here-only
    [[ $status -eq 1 ]]
    as_user_on h2 test -e "/shared/everywhere-$$"
    as_user_on h1 rm /tmp/here-only "/shared/everywhere-$$"
}

# Breaks when a host gets a default route or an interface that leads to the machine's network.
@test "no route leads out of the cluster" {
    for host in login h1 h4; do
        run as_root_on "$host" ip route
        [[ $status -eq 0 ]]
        lines_are 1 "$output"
        [[ $output == 10.77.0.0/24* ]]
        run as_root_on "$host" ip -o link
        lines_are 2 "$output"
    done
}

# Breaks when the ordinary users are added to the machine, or missing on a host.
@test "alice is a user of every host and not of the machine's account file" {
    run grep -q '^alice:' /etc/passwd
    [[ $status -eq 1 ]]
    run --separate-stderr as_user srun -N4 --ntasks-per-node=1 id -u
    [[ $status -eq 0 ]]
    lines_are 4 "$output"
    [[ $(sort -u <<< "$output") == 20001 ]]
}

# Breaks when mpi/pmix does not wire the hosts: singletons print "of 1", a lost host a wrong neighbour.
@test "eight ranks on four hosts are wired by PMIx" {
    needs_pmix
    put "$PMIX_RING" /shared/pmix_ring
    # Not before the slowest node has started its tasks: see mpi_bridge/core/settle.hpp.
    as_user sh -c 'rm -f /shared/ring-*'
    run as_user srun -N4 -n8 --ntasks-per-node=2 --mpi=pmix sh -c 'touch /shared/ring-$SLURM_PROCID
        until [ $(ls /shared/ring-* 2> /dev/null | wc -l) -eq 8 ]; do sleep 0.1; done
        sleep 0.5; exec /shared/pmix_ring'
    [[ $status -eq 0 ]]
    output=$(with_node_names <<< "$output")
    lines_are 8 "$(of_ranks "$output")"
    lines_are 8 "$(grep -E '^rank [0-7] of 8 on h[1-4], next on h[1-4]$' <<< "$output")"
    # Two ranks a host, in order: ranks 1, 3, 5 and 7 have their neighbour on the next host.
    [[ $output == *"rank 1 of 8 on h1, next on h2"* && $output == *"rank 7 of 8 on h4, next on h1"* ]]
}

# Breaks when slurmdbd or its database is not connected: sacct would have no steps.
@test "accounting sees the steps of a batch job with their exit codes" {
    job=$(as_user sbatch --parsable -N2 -o /dev/null --wrap 'srun true; srun -n1 -N1 sh -c "exit 3"')
    wait_until 60 job_is "$job" FAILED
    # The last step may be told of after the job.
    wait_until 60 steps_are_told "$job"
}
steps_are_told() {
    local told
    told=$(as_user sacct -n -P -j "$1" -o JobID,State,ExitCode) || return
    [[ $told == *"$1.0|COMPLETED|0:0"* && $told == *"$1.1|FAILED|3:0"* ]]
}

# Breaks when count-only generic resources are not configured on every node.
@test "a job gets the widgets that it asks for and no more than a host has" {
    run as_user srun -N1 --gres=widget:2 sh -c 'scontrol show job -d $SLURM_JOB_ID | grep GRES='
    [[ $output == *"GRES=widget:2"* ]]
    run as_user srun -N1 --gres=widget:3 true
    [[ $status -ne 0 ]]
}

# Breaks when exec loses input, the exit code, or the login environment.
@test "exec passes input, exit code and a clean environment" {
    [[ $(echo through | as_user cat) == through ]]
    run as_user sh -c 'exit 42'
    [[ $status -eq 42 ]]
    run -127 as_user no-such-command
    [[ $output == *no-such-command* ]]
    LEAKED=yes run as_user env
    [[ $output == *HOME=/home/alice* && $output != *LEAKED* ]]
}

# Breaks when a signal to exec ends exec but not the command.
@test "a command ends with the exec that was interrupted" {
    run timeout --signal=INT 1 "$MINICLUSTER" exec sleep 77
    [[ $status -ne 0 ]]
    wait_until 60 prints_nothing lines_like '^sleep 77' as_root_on login ps -eo args
}

# state_of_cluster: the process of slurmctld, and how old Slurm's settings are.
state_of_cluster() {
    as_root_on login sh -c 'pgrep -x slurmctld && find /etc/slurm -printf "%p %C@\n" | sort'
}

# Breaks when up starts a running cluster anew: the jobs in it would be lost. Or when its files get
# younger than the daemons that have read them, which admin check warns of.
@test "up leaves a running cluster alone" {
    before=$(state_of_cluster)
    "$MINICLUSTER" up --prefix "$PREFIX"
    diff <(echo "$before") <(state_of_cluster)
}

# Breaks when exec accepts a host that does not exist, or says nothing useful about it.
@test "an unknown host is refused with the names of the hosts" {
    run "$MINICLUSTER" exec --host h9 true
    [[ $status -eq 1 ]]
    [[ $output == *"no host h9"* && $output == *"login h1 h2 h3 h4"* ]]
}
