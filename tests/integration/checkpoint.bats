#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# What ranks are told before their end, what becomes of a job after it, and the tasks of arrays.

bats_require_minimum_version 1.5.0
load lib
load retry

setup_file() {
    make_home checkpoint
    # Runs into the time limit beside the other tests: Slurm's shortest is a minute.
    job_that_runs 'echo done' '{"on": ["timeout"]}' '{}' '"PT1M"' |
        prepared_by '[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || sleep 300' | submit unprepared
}

teardown_file() {
    cancel_jobs
    # If the test of a file system that hangs has failed, it still does.
    let_go 2> /dev/null || true
    wait_until 60 nodes_idle 4 || return 1
    remove_home
}

# told_by SIGNAL BEFORE: adds "checkpoint" to the job on standard input.
told_by() { jq --arg signal "$1" --arg before "$2" '.properties.checkpoint = {signal: $signal, before: $before}'; }
prepared_by() { jq --arg command "sh -c '$1'" '.properties.jobPreparation = {commandLine: $command}'; }

# In the first attempt, does that when the signal comes; succeeds in the next.
on_signal() {
    echo "[ \"\${SLURM_RESTART_COUNT:-0}\" -eq 0 ] || { echo done; exit 0; }
        trap \"$2\" $1; echo ready; while :; do sleep 0.2; done"
}
# record_of NAME ATTEMPT [TASK]: the record of an attempt.
record_of() {
    local id directory
    id=$(show "$1" | jq -r .slurmJobId) || return
    directory=$(as_user grep -rl --include=job.json "\"slurmJobId\": \"$id\"" "$HOME_DIR/records") || return
    as_user cat "${directory%/job.json}${3:+/task-$3}/attempts/$2.json"
}

# Breaks when TERM ends the ranks at once, or reaches srun, or a notice is lost while the ranks start.
@test "ranks are told by TERM, and keep the time to save" {
    job_that_runs "$(on_signal TERM 'echo told; sleep 3; echo saved; exit 75')" '{"on": ["timeout"]}' |
        told_by TERM PT20S | submit term
    wait_until 60 ranks_run term
    noticed term
    wait_until 60 has_said term told
    # Slurm would write of a TERM of its own to slurm.log, and take it for the end of the job.
    as_user_on "$(nodes_of term)" pkill -TERM -f "bin/batchai run"
    goes_on term
    run -0 batchai job wait --name term
    run -0 attempts term
    [[ $output == '[["timeLimit",75],["program",0]]' ]]
    run -0 batchai job logs term --attempt 1
    [[ $output == *ready*told*saved* ]]
    # Only once.
    [[ $(grep -c told <<< "$output") -eq 1 ]]
}

# Breaks when every failure after the notice is taken for the time limit.
@test "a program that fails after the notice has failed by itself" {
    job_that_runs "$(on_signal USR1 'echo told; exit 3')" '{"on": ["timeout"]}' |
        told_by USR1 PT4S | submit crash
    wait_until 60 has_said crash ready
    noticed crash
    run batchai job wait --name crash
    [[ $status -ne 0 ]]
    run -0 attempts crash
    [[ $output == '[["program",3]]' ]]
    run -0 batchai job logs crash
    [[ $output == *told* ]]
}

# Breaks when a notice is lost that comes before the ranks, or blames the preparation.
@test "a notice that comes during the preparation ends the attempt before its ranks" {
    job_that_runs 'echo done' '{"on": ["timeout"]}' | told_by USR1 PT1M |
        prepared_by "touch $HOME_DIR/preparing; until [ -e $HOME_DIR/told ]; do sleep 0.2; done; sleep 4" | submit early
    wait_until 60 as_user test -e "$HOME_DIR/preparing"
    noticed early
    as_user touch "$HOME_DIR/told"
    goes_on early
    run -0 batchai job wait --name early
    run -0 attempts early
    [[ $output == '[["timeLimit",1],["program",0]]' ]]
    run -0 record_of early 1
    jq -e '[.phases[].name] == ["outputs", "preparation"] and
        .failure.firstErrorLine == "the notice of \"checkpoint\" came before the ranks ran"' <<< "$output"
}

# Breaks when the second attempt is judged by the exit code of ranks that have saved and left.
@test "ranks that end well during a pre-emption run again" {
    local partition
    for partition in requeued cancelled; do
        job_that_runs "$(on_signal TERM 'echo saved; exit 0')" '{"on": ["preemption"]}' \
            '{"partition": "'$partition'"}' | told_by TERM PT1M | submit "well-$partition"
        wait_until 60 has_said "well-$partition" ready
        preempt "well-$partition"
    done
    for partition in requeued cancelled; do
        goes_on "well-$partition"
        run -0 batchai job wait --name "well-$partition"
        run -0 attempts "well-$partition"
        [[ $output == '[["preemption",'*'],["program",0]]' ]]
        [[ $(batchai job logs "well-$partition" --attempt 2) == "done" ]]
    done
}

# Breaks when somebody's wish is taken for Slurm's own requeue.
@test "a job that somebody queues again after its end runs whatever \"retry\" says" {
    job_that_runs "$(fails_first 74)" '{"on": ["75"], "max": 1}' | submit wanted
    run batchai job wait --name wanted
    [[ $status -ne 0 ]]
    wait_until 60 has_ended "$(slurm_id wanted)"
    as_user scontrol requeue "$(slurm_id wanted)"
    goes_on wanted
    wait_until 60 has_begun_again wanted
    run -0 batchai job wait --name wanted
    run -0 attempts wanted
    [[ $output == '[["program",74],["program",0]]' ]]
}

# Breaks when the requeue of one task is that of all, or tasks share their count. The last task has the
# id of the array.
@test "a task of an array is run again alone" {
    job_that_runs "[ \"\$SLURM_ARRAY_TASK_ID\" = 0 ] || $(fails_first 75)" '{"on": ["75"]}' \
        '{"array": "0-2"}' | submit array
    local id task
    id=$(slurm_id array)
    for task in 1 2; do
        start_again "${id}_$task"
    done
    run -0 batchai job wait --name array
    for task in 1 2; do
        run -0 record_of array 1 "$task"
        jq -e '.exitCode == 75 and .retried.queued and (.retried.message | contains("retry 1 of 3"))' <<< "$output"
        run -0 record_of array 2 "$task"
        jq -e '.exitCode == 0' <<< "$output"
    done
    run -0 record_of array 1 0
    jq -e '.exitCode == 0 and .retried == null' <<< "$output"
    run ! record_of array 2 0
}

# Breaks when the end of a job waits for a file server that does not answer.
@test "a job is run again although the storage of its progress hangs" {
    needs_rclone
    as_user mkdir -p "$HOME_DIR/hung"
    as_user_on h1 rclone mount --daemon :local:/usr/share/doc/bash "$HOME_DIR/hung" 3>&-
    as_root_on h1 pkill -STOP -u alice -x rclone
    job_that_runs "$(fails_first 75)" '{"on": ["75"], "stopWithoutProgress": {"directory": "'"$HOME_DIR"'/hung"}}' \
        '{"nodelist": "h1"}' | submit hung
    goes_on hung
    run -0 batchai job wait --name hung
    run -0 attempts hung
    [[ $output == '[["program",75],["program",0]]' ]]
    run -0 output_of hung execution.log
    [[ $output == *"nobody can tell whether the job makes progress"*"does not answer"* ]]
    let_go
}
let_go() {
    as_root_on h1 pkill -CONT -u alice -x rclone
    as_user_on h1 fusermount3 -u "$HOME_DIR/hung"
}

# Breaks when the preparation is blamed for the time limit.
@test "a job whose preparation reaches the time limit is run again" {
    goes_on unprepared
    run -0 batchai job wait --name unprepared
    run -0 attempts unprepared
    [[ $(jq -c 'map(.[0])' <<< "$output") == '["timeLimit","program"]' ]]
    run -0 record_of unprepared 1
    jq -e '.failure.phase == "preparation" and .failure.code == "JobTimedOut"' <<< "$output"
}
