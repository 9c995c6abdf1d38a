#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Homes and /shared on a file server that is slow, full, silent, or whose replies are lost. The suite has
# a cluster of its own: a file system over each host's view of them does these things (remote_fs.cpp), and
# each host has a cache of its own.

bats_require_minimum_version 1.5.0
load lib
load registry

setup_file() { own_cluster fs --nodes 2 --with remote; }
teardown_file() { "$MINICLUSTER" down --keep-logs; }

# shellcheck disable=SC2016 # for the rank's shell
hello='echo hello from $SLURM_PROCID'

setup() {
    make_home "remote-$BATS_TEST_NUMBER"
    write_mpi_job job.json 2 "$hello"
}

teardown() {
    faults ''
    cancel_jobs
    wait_until 60 nothing_is_queued
    remove_home
}

# faults WORDS: what the server does wrong from now on.
faults() { echo "delay 2 $1" > "${MINICLUSTER_HOME:-/var/lib/minicluster}/$MINICLUSTER_NAME/remote/faults"; }

records() { as_user find "$HOME_DIR/records" "$@"; }

# trains NAME: the job is created, ends well, and its output is there.
trains() {
    run -0 batchai job create --name "$1" -f job.json -o none
    ends_well "$1"
}
ends_well() {
    run -0 batchai job wait --name "$1"
    run -0 batchai job logs "$1"
    echo "$output"
    [[ $output == *"hello from 0"* && $output == *"hello from 1"* ]]
}

# Breaks when ENOENT after a rename, or EEXIST after a link or mkdir, is believed: a client of NFS gets
# them when the server has done what was asked, but its answer was lost.
@test "a job lives and goes although each answer of the file server is lost" {
    faults 'lost 1000'
    trains lossy
    run -4 batchai job create --name lossy -f job.json -o none
    run -0 batchai cluster create --name pair --vm-size '' --target 2 --output none
    run -0 batchai cluster delete --name pair --yes
    run -0 batchai job delete --name lossy --yes
    faults ''
    prints_nothing records -path '*/jobs/*'
    prints_nothing records -path '*/.trash/*'
    prints_nothing records -path '*/.new/*'
}

@test "a snapshot and an image come to a job although each answer of the file server is lost" {
    image "$HOME_DIR/layout" v1 one 1
    as_user bash -c "mkdir $HOME_DIR/code && cd $HOME_DIR/code && echo 'echo a snapshot' > run.sh &&
        ln -s run.sh link && git init -q"
    # The copy is skopeo's, which believes what it is told.
    run -0 batchai image pull "oci:$HOME_DIR/layout:v1"
    faults 'lost 1000'
    batchai job create --name packed -f - -o none << JSON
{"properties": {"nodeCount": 1, "stdOutErrPathPrefix": "$HOME_DIR/logs",
    "snapshot": {"directory": "$HOME_DIR/code"},
    "containerSettings": {"imageSourceRegistry": {"image": "oci:$HOME_DIR/layout:v1"}},
    "customToolkitSettings": {"commandLine": "sh \$AZ_BATCHAI_JOB_SNAPSHOT/link; cat /version"}}}
JSON
    run -0 batchai job wait --name packed
    run -0 output_of packed
    echo "$output"
    [[ $output == *$'a snapshot\none' ]]
}

@test "a name is taken once, whoever's answers are lost" {
    local name client
    faults 'lost 300'
    for name in one two three; do
        for client in 1 2 3 4; do
            {
                local code=0
                batchai job create --name "$name" -f job.json -o none || code=$?
                echo "$code"
            } &> "$BATS_TEST_TMPDIR/$name.$client" 3>&- &
        done
        wait
        tail "$BATS_TEST_TMPDIR/$name".*
        [[ $(tail -qn 1 "$BATS_TEST_TMPDIR/$name".* | sort | xargs) == "0 4 4 4" ]]
    done
    for name in one two three; do ends_well "$name"; done
    wait_until 60 nothing_is_queued
}

# Breaks when a record, a log or a list ends at the first file that another host has replaced.
@test "stale files are read again" {
    trains first
    faults 'stale 3'
    for _ in 1 2 3 4 5; do
        run -0 batchai job list -o tsv
        [[ $output == *first* ]]
        run -0 batchai job show --name first --output none
        run -0 batchai job logs first
        [[ $output == *"hello from 1"* ]]
    done
    trains second
}

@test "a file server without room refuses a job, and leaves nothing of it in the queue" {
    local fault words
    for fault in full quota; do
        [[ $fault == full ]] && words='No space left on device' || words='Disk quota exceeded'
        trains "before-$fault"
        faults "$fault 1"
        run batchai job create --name "on-$fault" -f job.json -o none
        echo "$output"
        [[ $status -ne 0 && $output == *"$words"* ]]
        wait_until 60 nothing_is_queued
        faults ''
        trains "on-$fault"
    done
}

# Breaks when a job whose record cannot be written is lost, or said to run for ever.
@test "a job that ends on a full file server has ended" {
    write_mpi_job waits.json 2 "until [ -e $HOME_DIR/go ]; do sleep 0.2; done; $hello"
    run -0 batchai job create --name filled -f waits.json -o none
    wait_until 60 is_running filled
    as_user touch "$HOME_DIR/go"
    faults 'full 1'
    wait_until 60 nothing_is_queued
    run -0 batchai job show --name filled --query executionState -o tsv
    [[ $output == succeeded || $output == failed ]]
    faults ''
    run batchai job wait --name filled
    [[ $output == *"Job completed at"* || $output == *"Job failed"* ]]
}
is_running() { [[ $(batchai job show --name "$1" --query executionState -o tsv) == running ]]; }

@test "a file server that is silent for a while delays jobs and commands, and ends none" {
    write_mpi_job waits.json 2 "until [ -e $HOME_DIR/go ]; do sleep 0.2; done; $hello"
    run -0 batchai job create --name silent -f waits.json -o none
    wait_until 60 is_running silent
    batchai job wait --name silent > "$BATS_TEST_TMPDIR/waited" 2>&1 3>&- &
    faults 'away 1'
    # Not by `run`: the program cannot even be killed before the server answers, and has its streams.
    local code=0
    timeout --kill-after=1 3 "$(program_of_exec)" -- touch "$HOME_DIR/while-silent" &> /dev/null 3>&- || code=$?
    [[ $code -eq 124 || $code -eq 137 ]]
    faults ''
    as_user touch "$HOME_DIR/go"
    wait $! || { cat "$BATS_TEST_TMPDIR/waited"; return 1; }
    ends_well silent
}
