#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# A site that lets a requeued job start again soon. The suite has a cluster of its own, whose delay is 20 s
# instead of two minutes.

bats_require_minimum_version 1.5.0
load lib
load retry

setup_file() { own_cluster rq --nodes 2 --with requeue; }
teardown_file() { "$MINICLUSTER" down --keep-logs; }

setup() { make_home "requeue-$BATS_TEST_NUMBER"; }

teardown() {
    cancel_jobs
    wait_until 60 nothing_is_queued
    remove_home
}

# waited NAME: how many seconds the second attempt of a job began after the end of the first.
waited() {
    local end start
    end=$(show "$1" | jq -er '.attempts[0].endTime')
    start=$(show "$1" | jq -er '.attempts[1].startTime')
    echo $(($(date -d "$start" +%s) - $(date -d "$end" +%s)))
}

# Breaks when the cluster of this suite has the delay of any other, or a retry through the queue waits longer
# than its site says.
@test "a job that goes through the queue starts again after the site's delay" {
    job_that_runs "$(fails_first 75)" '{"on": ["75"]}' | submit soon
    run -0 batchai job wait --name soon
    [[ $(attempts soon) == '[["program",75],["program",0]]' ]]
    echo "waited $(waited soon) s"
    (($(waited soon) >= 20 && $(waited soon) < 90))
}

# Breaks when admin check takes Slurm's own two minutes for the site's delay.
@test "admin check says how long a requeued job waits here" {
    run -0 batchai admin check --only slurm.requeue
    echo "$output"
    [[ $output == *"ok "*"slurm.requeue"*"start again after 20 s at the earliest"* ]]
}
