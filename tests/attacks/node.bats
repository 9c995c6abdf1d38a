#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Attacks on a compute node: what one user's job can do to the node, to root's processes there, and to
# another user's job. Each must fail. docs/security.md says what is promised.

bats_require_minimum_version 1.5.0
load ../integration/lib

share=/shared/attacks-node
alice_root=/tmp/batchai-20001
bob_root=/tmp/batchai-20002

as_bob_on() { "$MINICLUSTER" exec --user bob --host "$1" -- "${@:2}"; }

setup_file() {
    as_root_on login install -d -m 1777 "$share"
    as_root_on login bash -c "cat > $share/job.json && chmod 644 $share/job.json" << 'JSON'
{"properties": {"nodeCount": 1, "stdOutErrPathPrefix": "/tmp",
                "customToolkitSettings": {"commandLine": "true"}}}
JSON
}

teardown_file() { as_root_on login rm -rf "$share"; }

setup() {
    wait_until 60 nodes_idle 4
    as_root_on h1 bash -c "rm -rf $alice_root $alice_root.*"
}

teardown() {
    as_root_on login bash -c 'squeue -h -o %i | xargs -r scancel'
    as_root_on h1 bash -c 'pkill -KILL -u alice; pkill -KILL -u bob; rm -rf /etc/cdi'
    as_root_on h1 bash -c "rm -rf $alice_root $alice_root.* $bob_root"
    wait_until 60 nodes_idle 4
    no_node_is_drained
}

# bob's and alice's steps on the first node; --job-json gives them a sandbox.
step_of_bob() { as_bob srun -w h1 --job-json="$share/job.json" "$@"; }
step_of_alice() { as_user srun -w h1 --job-json="$share/job.json" "$@"; }

# shellcheck disable=SC2016 # for the shell on that host
no_process_of() { prints_nothing as_root_on "$1" bash -c 'pgrep -u "$0" || [[ $? -eq 1 ]]' "$2"; }

# Breaks when root's slurmstepd waits for a process that its user has stopped: Slurm would drain the
# node, and with it alice's next job would be lost.
@test "bob cannot hold a node by stopping his batchai-node" {
    local begin=$SECONDS
    # All of his own but this shell: with hidepid, he would not find the one.
    step_of_bob bash -c 'kill -STOP -- -1'
    ((SECONDS - begin < 60))
    wait_until 60 no_process_of h1 bob
    run step_of_alice echo alice runs
    echo "$output"
    [[ $status -eq 0 && $output == *"alice runs"* ]]
    no_node_is_drained
}

# Breaks when a cancelled job that stops its batchai-node and ignores signals outlasts KillWait.
@test "bob cannot hold a node with a cancelled job whose processes ignore every signal" {
    local id
    as_bob sbatch -w h1 --parsable -o /dev/null --wrap "srun --job-json=$share/job.json bash -c \
        'trap \"exit 0\" TERM; kill -STOP -- -1; touch $share/began; sleep 300 & wait'" \
        > "$BATS_TEST_TMPDIR/id"
    id=$(< "$BATS_TEST_TMPDIR/id")
    wait_until 60 as_root_on login test -e "$share/began"
    as_bob scancel "$id"
    # KillWait is 5 s; root's part of the step 10. Slurm drains the node for what is there after 30 s more. Its own
    # slurmstepd answers nobody for a minute when srun is stopped before it has heard of the start.
    wait_until 170 nothing_is_queued
    no_node_is_drained
}

# Breaks when a name below /tmp that anybody can guess decides whether alice's jobs run.
@test "bob cannot keep alice's jobs from a node by making her directory first" {
    local kind
    for kind in "mkdir -m 777" "ln -s /etc" "ln -s /home/bob" "touch"; do
        as_bob_on h1 bash -c "$kind $alice_root"
        run step_of_alice bash -c 'echo "$AZ_BATCHAI_JOB_TEMP"; cd $AZ_BATCHAI_JOB_TEMP && stat -c %U . && echo fine'
        echo "$kind: $output"
        [[ $status -eq 0 && $output == *"$alice_root."*fine* ]]
        # What she left is hers, nothing of it is in his, and the clean-up finds it.
        run as_root_on h1 bash -c "stat -c '%U %a' $alice_root.*"
        [[ $output == "alice 700" ]]
        wait_until 60 as_root_on h1 bash -c "! ls -d $alice_root.*/*"
        run as_root_on h1 bash -c "find $alice_root/ -mindepth 1 | head -3; ls /etc/by-job /home/bob/by-job"
        [[ $output != *by-job/* ]]
        as_root_on h1 rm -rf "$alice_root"
    done
}

# Breaks when what an image's own program starts on the node survives the job.
@test "what bob's image starts behind the container's back ends with his job" {
    local root=$share/image
    as_bob bash -c "mkdir -p $root/{bin,sbin,etc,tmp,usr/lib,proc,sys,dev,opt} && cd $root/bin &&
        cp /bin/busybox . && for name in sh cat sleep setsid; do ln -sf busybox \$name; done
        printf '#!/bin/sh\nsetsid sh -c \"trap : TERM HUP; while :; do sleep 1; done\" < /dev/null > /dev/null 2>&1 &\n' > $root/sbin/ldconfig
        chmod 755 $root/sbin/ldconfig"
    jq -n --arg root "$root" '{properties: {nodeCount: 1, stdOutErrPathPrefix: "/tmp",
        containerSettings: {imageSourceRegistry: {image: $root}},
        customToolkitSettings: {commandLine: "true"}}}' | as_bob bash -c "cat > $share/boxed.json"
    # A library of a device makes the container run the image's ldconfig.
    as_root_on h1 bash -c 'mkdir -p /etc/cdi && cat > /etc/cdi/test.json' << 'JSON'
{"cdiVersion": "0.6.0", "kind": "example.com/library", "devices": [],
 "containerEdits": {"mounts": [{"hostPath": "/bin/busybox", "containerPath": "/opt/lib.so",
                                "options": ["ro", "rbind"]}]}}
JSON
    run as_bob srun -w h1 --job-json="$share/boxed.json" sh -c 'sleep 1; echo ran'
    echo "$output"
    [[ $status -eq 0 && $output == *ran* ]]
    wait_until 60 no_process_of h1 bob
}

# Breaks when the epilog waits for a lock or a process of the user's.
@test "bob cannot hold the epilog with the lock of his own directory" {
    step_of_bob true
    wait_until 60 nodes_idle 4
    # What a step leaves behind would not outlive it under proctrack/cgroup, so bob takes the lock
    # from a login session on the node, while his step runs.
    as_bob rm -f "$share/step-runs" "$share/lock-is-held"
    step_of_bob bash -c "touch $share/step-runs; until [[ -e $share/lock-is-held ]]; do sleep 0.1; done" 3>&- &
    wait_until 60 as_root_on login test -e "$share/step-runs"
    as_bob_on h1 setsid -f flock "$bob_root" bash -c "touch $share/lock-is-held; exec sleep 600" \
        < /dev/null > /dev/null 2>&1 3>&-
    wait "$!"
    wait_until 60 nothing_is_queued
    as_root_on h1 pgrep -u bob -x sleep
    no_node_is_drained
    # The clean-up waits for the lock in a process of bob's, and then does its work.
    as_root_on h1 pkill -u bob -x sleep
    wait_until 60 prints_nothing as_root_on h1 find "$bob_root" -mindepth 1
}

# Breaks when a job that has nothing to do with batchai pays for it, or root trusts a user's files.
@test "the epilog of a plain job starts nothing, whatever its user plants" {
    # With this entry batchai-node would remove the directory.
    as_bob srun -w h1 bash -c 'root=/tmp/batchai-$(id -u); mkdir -p $root/by-job $root/kept; chmod 700 $root
        echo kept > $root/by-job/$SLURM_JOB_ID'
    wait_until 60 nothing_is_queued
    as_root_on h1 test -d "$bob_root/kept"
    run as_bob_on h1 touch /run/batchai/1
    [[ $status -ne 0 ]]
    run as_bob_on h1 rm -rf /run/batchai
    [[ $status -ne 0 ]]
}
