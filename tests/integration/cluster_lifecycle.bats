#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Starting and ending clusters, crashes included. Each test uses clusters of its own and looks at
# the machine afterwards: processes, namespaces, mounts, interfaces and files.

bats_require_minimum_version 1.5.0
load lib

other=lifecycle

setup() {
    links_before=$(ip -o link | awk '{print $2}')
    directory=${MINICLUSTER_HOME:-/var/lib/minicluster}/$other
    "$MINICLUSTER" down --name "$other"
}

teardown() { "$MINICLUSTER" down --name "$other"; }

# The process ids of all anchors, the switch's among them.
anchors() { pgrep -f "^minicluster-host.$directory." || [[ $? -eq 1 ]]; }

# Every namespace of the cluster that is not the machine's, one line each.
namespaces() {
    local pid
    for pid in $(anchors); do
        readlink "/proc/$pid"/ns/{net,pid,mnt,uts,ipc} || true
    done | sort -u
}

# Every process that is in one of the namespaces on standard input.
processes_in() {
    local wanted
    wanted=$(cat)
    [[ -n $wanted ]] || { echo "no namespace was given to look for" >&2; return 1; }
    find /proc -maxdepth 3 -path '/proc/[0-9]*/ns/*' -printf '%h %l\n' 2> /dev/null |
        { grep -F -- "$wanted" || [[ $? -eq 1 ]]; } | sort -u
}

# Nothing of the cluster whose namespaces are in $1 is left on the machine.
nothing_is_left() {
    prints_nothing processes_in <<< "$1"
    prints_nothing anchors
    if grep -F "$directory" /proc/self/mountinfo; then return 1; fi
    [[ $(ip -o link | awk '{print $2}') == "$links_before" ]]
    [[ ! -e $directory ]]
}

# Breaks when down forgets a daemon, a mount, an interface or a file.
@test "down leaves nothing behind" {
    "$MINICLUSTER" up --name "$other" -n 2
    taken=$(namespaces)
    # Proves that the search finds something while there is something to find.
    [[ -n $(processes_in <<< "$taken") ]]
    "$MINICLUSTER" down --name "$other"
    nothing_is_left "$taken"
}

# Breaks when down relies on slurmd to end a running job's processes.
@test "down leaves nothing behind after slurmd was killed under a running job" {
    "$MINICLUSTER" up --name "$other" -n 2
    "$MINICLUSTER" exec --name "$other" sbatch -N2 -o /dev/null --wrap 'srun setsid sleep 1000'
    wait_until 60 "$MINICLUSTER" exec --name "$other" --host h2 --user root pgrep -f 'sleep 1000'
    "$MINICLUSTER" exec --name "$other" --host h1 --user root pkill -9 -x slurmd
    taken=$(namespaces)
    wait_until 60 slurmd_is_missed
    "$MINICLUSTER" down --name "$other"
    nothing_is_left "$taken"
}

# slurmd_is_missed: for wait_until; what is killed is there for another moment.
slurmd_is_missed() {
    local said code=0
    said=$("$MINICLUSTER" status --name "$other" 2>&1) || code=$?
    echo "$said"
    [[ $code -eq 1 && $said == *"slurmd on h1 does not run"* ]]
}

left_of_up() { pgrep -f "minicluster up --name $other|^cp .*$directory/" || [[ $? -eq 1 ]]; }

# Breaks when hosts can live on that no file or finished up knows of.
@test "down leaves nothing behind after up was killed half-way" {
    for delay in 0.1 0.3 1; do
        "$MINICLUSTER" up --name "$other" -n 2 3>&- &
        up=$!
        sleep "$delay"
        kill -9 "$up"
        wait "$up" || true
        # An anchor that was still building its host gives up by itself, as nobody reads its report,
        # and the copy of a database ends by itself.
        wait_until 60 prints_nothing left_of_up
        taken=$(namespaces)
        "$MINICLUSTER" down --name "$other"
        if [[ -n $taken ]]; then nothing_is_left "$taken"; else [[ ! -e $directory ]]; fi
    done
}

# Breaks when up trusts what it wrote before the processes were lost, as in a reboot.
@test "up starts afresh after all processes were lost" {
    "$MINICLUSTER" up --name "$other" -n 2
    anchors | xargs kill -9
    run "$MINICLUSTER" status --name "$other"
    [[ $status -eq 3 ]]
    "$MINICLUSTER" up --name "$other" -n 2
    run "$MINICLUSTER" exec --name "$other" srun -N2 hostname
    [[ $status -eq 0 ]]
    lines_are 2 "$output"
}

# Breaks when two clusters share a socket, a port, a network or a job list.
@test "two clusters run side by side and do not see each other's jobs" {
    "$MINICLUSTER" up --name "$other" -n 2
    job=$("$MINICLUSTER" exec --name "$other" sbatch --parsable -N2 -J apart -o /dev/null --wrap 'sleep 60')
    run "$MINICLUSTER" exec --name "$other" squeue -h -o %j
    [[ $output == apart ]]
    run as_user squeue -h -o %j
    [[ $status -eq 0 && $output != *apart* ]]
    [[ $("$MINICLUSTER" exec --name "$other" scontrol show config | grep ClusterName) == *"$other" ]]
    [[ $(as_user scontrol show config | grep ClusterName) == *"$MINICLUSTER_NAME" ]]
    "$MINICLUSTER" exec --name "$other" scancel "$job"
    "$MINICLUSTER" down --name "$other"
    wait_until 60 nodes_idle 4
}

# Breaks when a prefix that jobs could not read is accepted: every job would fail, far from the cause.
@test "a prefix that ordinary users cannot read is refused" {
    closed=$BATS_TEST_TMPDIR/closed
    mkdir -m 700 "$closed"
    run "$MINICLUSTER" up --name "$other" --prefix "$closed"
    [[ $status -eq 1 ]]
    [[ $output == *"$closed is closed to ordinary users"* && $output == *chmod* ]]
    prints_nothing anchors
}

# Breaks when Slurm does not hand out the machine's own devices as GPUs, or hosts get pretended ones.
@test "devices of the machine are the GPUs of the only host, and nothing else can be" {
    run ! "$MINICLUSTER" up --name "$other" --nodes 1 --gpu-devices /etc/passwd
    [[ $output == *"'/etc/passwd' is not a device file of a GPU"*"for example /dev/nvidia0"* ]]
    run ! "$MINICLUSTER" up --name "$other" --nodes 2 --gpu-devices /dev/zero
    [[ $output == *"several nodes cannot have the same GPUs"* ]]
    [[ ! -e $directory ]]
    "$MINICLUSTER" up --name "$other" --nodes 1 --gpu-devices /dev/zero
    run -0 "$MINICLUSTER" exec --name "$other" scontrol show node h1
    [[ $output == *"gpu:1"* ]]
    "$MINICLUSTER" exec --name "$other" srun --gpus=1 test ! -e /run/minicluster/gpu0
    run ! "$MINICLUSTER" exec --name "$other" srun --immediate=5 --gpus=2 true
}
