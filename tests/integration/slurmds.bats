#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Several slurmd on a host: the nodes h1 and h2 are on the host h1, h3 and h4 on h3. Names of nodes that are not
# those of hosts, such as h2, are in no /etc/hosts.

bats_require_minimum_version 1.5.0
load lib

setup_file() {
    own_cluster sl --with slurmds
    make_home slurmds
}

teardown_file() {
    remove_home
    "$MINICLUSTER" down --name "$MINICLUSTER_NAME" --keep-logs
}

teardown() { end_jobs; }

# write_job FILE MORE [COMMAND]: a job on two nodes of a host.
write_job() {
    write_mpi_job "$1" 2 "${3:-true}" "$(jq -n --argjson more "$2" '{slurm: {nodelist: "h1,h2"}} + $more')"
}

h2_is_idle() { [[ $(as_user sinfo -h -p main -n h2 -o %t) == idle ]]; }

# Breaks when nodes of a host share the job's temporary directory, in which each prepares what it needs.
@test "each node of a host has the job's temporary directory to itself" {
    write_job prepared.json '{"jobPreparation": {"commandLine": "mkdir $AZ_BATCHAI_JOB_TEMP/once && sleep 2"}}' \
        'ls -d $AZ_BATCHAI_JOB_TEMP/once'
    create prepared
    batchai job wait --name prepared
    run -0 --separate-stderr output_of prepared
    echo "$output"
    [[ $(sort -u <<< "$output" | wc -l) -eq 2 && $output == */tmp/batchai-20001-h2/*/once* ]]
    wait_until 60 nothing_is_queued
    wait_until 60 nodes_are_clean h1 h3
}

# Breaks when the epilog of one node removes what the job still has on another one of the host, or the epilog of
# the other one then removes nothing.
@test "the end of a job on one node leaves what it has on another node of the host" {
    write_job shrinks.json '{}'
    as_user bash -c 'cd "$1" && cat > script.sh && BATCHAI_HOME="$1/records" sbatch --job-json=shrinks.json --output=out.txt script.sh' \
        submit "$HOME_DIR" << 'SCRIPT'
#!/bin/bash
srun -N2 -n2 bash -c 'touch $AZ_BATCHAI_JOB_TEMP/of-$SLURMD_NODENAME'
srun -N1 -n1 -w h1 bash -c 'touch began; until test -e go; do sleep 0.2; done; ls $AZ_BATCHAI_JOB_TEMP' > kept.txt &
until test -e began; do sleep 0.2; done
scontrol update "JobId=$SLURM_JOB_ID" NumNodes=1
rm -f slurm_job_*_resize.*
touch shrunk
wait
SCRIPT
    wait_until 60 as_user test -e "$HOME_DIR/shrunk"
    wait_until 60 h2_is_idle
    wait_until 60 prints_nothing as_root_on h2 find /tmp -name of-h2
    as_user touch "$HOME_DIR/go"
    wait_until 60 nothing_is_queued
    run -0 as_user cat "$HOME_DIR/out.txt" "$HOME_DIR/kept.txt"
    echo "$output"
    [[ $output == *of-h1* && $output != *of-h2* ]]
    wait_until 60 nodes_are_clean h1
    prints_nothing as_root_on h1 ls /run/batchai
}

# Breaks when ranks are told the name of a node as the place to meet, where it has no address.
@test "ranks meet at the address of the host, if their nodes have names of their own" {
    write_mpi_job meet.json 2 'echo "$MASTER_ADDR $AZ_BATCH_HOST_LIST"' '{"slurm": {"nodelist": "h2,h4"}}'
    create meet
    batchai job wait --name meet
    run -0 --separate-stderr output_of meet
    echo "$output"
    [[ $(sort -u <<< "$output") == "10.77.0.1 10.77.0.1,10.77.0.3" ]]
}

# Breaks when logs go where the epilog of this node does not look for them, or where a step does not.
@test "logs can be on the own storage of a node that shares its host" {
    jq -n --arg seen "$HOME_DIR/seen" '{properties: {nodeCount: 1, stdOutErrPathPrefix: "$AZ_BATCHAI_JOB_TEMP",
        slurm: {nodelist: "h2"}, customToolkitSettings: {
            commandLine: ("cd $AZ_BATCHAI_STDOUTERR_DIR && { pwd; ls; } > " + $seen)}}}' | write_home here.json
    create here
    batchai job wait --name here
    run -0 as_user cat "$HOME_DIR/seen"
    echo "$output"
    [[ $output == /tmp/batchai-20001-h2/*execution* ]]
    wait_until 60 nothing_is_queued
    wait_until 60 nodes_are_clean h2
}

# Breaks when a site is not told that Slurm's PMIx cannot work on its nodes.
@test "admin check finds a site on which nodes of a host are in each other's way" {
    run -0 as_user "$PREFIX/bin/batchai" admin check --only slurm.slurmds
    echo "$output"
    [[ $output == *"h1, h2 are on one host, and have directories of their own"* ]]
    as_root_on login sh -c 'sed "/^TmpFS=/d" /etc/slurm/slurm.conf > /etc/slurm/new && cp /etc/slurm/slurm.conf /tmp/before'
    as_root_on login sh -c 'mv /etc/slurm/new /etc/slurm/slurm.conf && scontrol reconfigure'
    run as_user "$PREFIX/bin/batchai" admin check --only slurm.slurmds
    local code=$status
    as_root_on login sh -c 'cp /tmp/before /etc/slurm/slurm.conf && scontrol reconfigure'
    echo "$output"
    [[ $code -eq 2 && $output == *"h1, h2 are on one host, and TmpFS does not have %n"* ]]
}
