#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# A site that lets a requeued job start again soon, and with Slurm 25.11 and later expedites those that
# ask for it. The suite has a cluster of its own, whose delay is 20 s instead of two minutes.

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

needs_expedite() { slurm_is_from 25.11 || skip "Slurm has --requeue=expedite from 25.11 on"; }

# create_expedited NAME: the job of NAME.json, as one that Slurm expedites.
create_expedited() { batchai job create --name "$1" --config-file "$1.json" --output none -- --requeue=expedite; }

# waited NAME: how many seconds the second attempt of a job began after the end of the first.
waited() {
    local end start
    end=$(show "$1" | jq -er '.attempts[0].endTime')
    start=$(show "$1" | jq -er '.attempts[1].startTime')
    echo $(($(date -d "$start" +%s) - $(date -d "$end" +%s)))
}

# is_held ID: for wait_until; the job is in the queue and does not start by itself.
is_held() { [[ $(as_user squeue -h -j "$1" -o %T) == REQUEUE_HOLD ]]; }

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

# Breaks when Slurm no longer holds such a job, so that the tests below test nothing.
@test "Slurm itself holds an expedited job that fails on sound nodes" {
    needs_expedite
    local id
    id=$(as_user sbatch --parsable --requeue=expedite --output=/dev/null --wrap 'exit 3')
    wait_until 60 is_held "$id"
}

# Breaks when a job that has failed stays in the queue, held, and `job wait` waits for ever.
@test "a job that was submitted with --requeue=expedite and fails has failed" {
    needs_expedite
    local id
    job_that_runs 'exit 74' '{"on": ["75"]}' | write_home failed.json
    create_expedited failed
    id=$(slurm_id failed)
    run batchai job wait --name failed
    [[ $status -ne 0 ]]
    [[ $(attempts failed) == '[["program",74]]' ]]
    wait_until 60 has_ended "$id"
    wait_until 60 job_is "$id" FAILED
    state_is failed failed
    run -4 batchai job resume --name failed
    echo "$output"
    [[ $output == *"--requeue=expedite"*"create the job again"* ]]
}

# Breaks when the door of sbatch leaves the job held.
@test "a script with \`batchai run\` and --requeue=expedite fails, too" {
    needs_expedite
    local id
    write_mpi_job door.json 1 'sh -c "exit 5"'
    # shellcheck disable=SC2016 # for the inner shell
    id=$(as_user bash -c 'cd "$1" && BATCHAI_HOME="$1/records" PATH="$2/bin:$PATH" sbatch --parsable \
        --requeue=expedite --output=/dev/null --job-json=door.json --wrap "batchai run"' \
        door "$HOME_DIR" "$PREFIX")
    wait_until 60 has_ended "$id"
    wait_until 60 job_is "$id" FAILED
}

# Breaks when a job that is to run again may not, or when the delay counts for an expedited job.
@test "a job with retry and --requeue=expedite runs again at once, and then succeeds" {
    needs_expedite
    job_that_runs "$(fails_first 75)" '{"on": ["75"]}' | write_home again.json
    create_expedited again
    run -0 batchai job wait --name again
    [[ $(attempts again) == '[["program",75],["program",0]]' ]]
    echo "waited $(waited again) s"
    (($(waited again) < 20))
}

# Breaks when the loss of a node no longer queues such a job again.
@test "an expedited job whose node is lost runs again" {
    needs_expedite
    local node
    job_that_runs "$(sleeps_first)" '{"on": ["nodeFailure"]}' | write_home lost.json
    create_expedited lost
    wait_until 60 ranks_run lost
    node=$(nodes_of lost)
    # It must be lost indeed. One that an administrator sets down comes back as soon as its slurmd answers.
    # Slurm then starts the job there while its last attempt is still ending, and drains the node for it.
    host_dies "$node"
    run -0 batchai job wait --name lost
    show lost | jq -e '.attempts | length == 2'
    host_lives "$node"
    wait_until 60 nodes_idle 2
}
