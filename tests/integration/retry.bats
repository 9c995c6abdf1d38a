#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Jobs that are run again after a failure: each cause is provoked for real.

bats_require_minimum_version 1.5.0
load lib
load retry

setup_file() {
    make_home retry
    job_that_runs "$(stops_at_the_signal)" '{"on": ["timeout"]}' '{}' '"PT2M"' |
        jq '.properties.checkpoint = {before: "PT1M"}' | submit warned
    # Runs into the time limit beside the other tests: Slurm's shortest is a minute.
    sleeps_first | job_that_runs "$(cat)" '{"on": ["timeout"]}' '{}' '"PT1M"' | submit limit
}

teardown_file() {
    cancel_jobs
    wait_until 60 nodes_idle 4 || return 1
    remove_home
}

@test "a job is run again by its exit code, with a record and logs of its own" {
    job_that_runs "echo attempt \${SLURM_RESTART_COUNT:-0}; $(fails_first 75)" '{"on": ["75"]}' | submit code
    wait_until 90 waits_again code
    # The end of the attempt is not the end of the job.
    state_is code queued
    goes_on code
    run -0 batchai job wait --name code
    [[ $(attempts code) == '[["program",75],["program",0]]' ]]
    [[ $(retry_of code 0) == "the job is queued again, retry 1 of 3: Job failed with non-zero exit code" ]]
    [[ $(batchai job logs code --attempt 1) == "attempt 0" ]]
    [[ $(batchai job logs code --attempt 2) == $'attempt 1\ndone' ]]
}

@test "a job that fails with another exit code has failed" {
    job_that_runs 'exit 74' '{"on": ["75", "130-140", "timeout"]}' | submit other
    run batchai job wait --name other
    [[ $status -ne 0 ]]
    [[ $(attempts other) == '[["program",74]]' ]]
}

# Breaks when the page shows settings or commands that do not work.
@test "the settings and the commands of the page about checkpoints do what it says" {
    local shown commands=()
    shown="{$(block_of checkpoints.md json 1), $(block_of checkpoints.md json 2)}"
    mapfile -t commands < <(sed -n 's/^batchai \(.*\)/\1/p' "$SOURCE/docs/checkpoints.md")
    [[ ${#commands[@]} -eq 2 && ${commands[0]} == "job show "* && ${commands[1]} == "job resume "* ]]
    # Fails with 75, and when it is run again with 74.
    job_that_runs '[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || exit 75; [ "${SLURM_RESTART_COUNT}" -gt 1 ] || exit 74' \
        '{}' '{}' '"PT1H"' | jq --argjson shown "$shown" --arg home "$HOME_DIR" \
        '.properties += $shown + {outputDirectories: [{id: "MODEL", pathPrefix: $home}]}' | submit train
    goes_on train
    run batchai job wait --name train
    [[ $status -ne 0 ]]
    eval "run -0 batchai ${commands[0]}"
    echo "$output"
    [[ $output =~ 1\ +program\ +75\ +the\ job\ is\ queued\ again && $output =~ 2\ +program\ +74 ]]
    eval "run -0 batchai ${commands[1]}"
    goes_on train
    run -0 batchai job wait --name train
}

# Breaks when a job is run again for ever.
@test "a job is not run again more often than it says" {
    job_that_runs 'exit 75' '{"on": ["75"], "max": 1}' | submit bounded
    goes_on bounded
    run batchai job wait --name bounded
    [[ $status -ne 0 ]]
    [[ $(attempts bounded) == '[["program",75],["program",75]]' ]]
    [[ $(retry_of bounded 1) == *'has been run again once, and "retry.max" is 1' ]]
}

@test "a job that makes no progress is given up" {
    as_user mkdir -p "$HOME_DIR/models"
    local retry='{"on": ["75"], "stopWithoutProgress": {"directory": "'$HOME_DIR/models'", "attempts": 1}}'
    job_that_runs "[ \"\${SLURM_RESTART_COUNT:-0}\" -gt 0 ] || echo 1 > $HOME_DIR/models/1.pt; exit 75" \
        "$retry" | submit stuck
    goes_on stuck
    run batchai job wait --name stuck
    [[ $status -ne 0 ]]
    [[ $(attempts stuck) == '[["program",75],["program",75]]' ]]
    [[ $(retry_of stuck 1) == *"the last attempt has written nothing to $HOME_DIR/models" ]]
}

# Slurm queues the first of these again and ends the second.
@test "a job is run again after a pre-emption, also where Slurm would end it" {
    local partition
    for partition in requeued cancelled; do
        job_that_runs "$(sleeps_first)" '{"on": ["preemption"]}' '{"partition": "'$partition'"}' |
            submit "from-$partition"
        preempt "from-$partition"
    done
    for partition in requeued cancelled; do
        goes_on "from-$partition"
        run -0 batchai job wait --name "from-$partition"
        [[ $(attempts "from-$partition" | jq -c 'map(.[0])') == '["preemption","program"]' ]]
        [[ $(retry_of "from-$partition" 0) == *"retry 1 of 3: A job of higher priority"* ]]
    done
}

# Breaks when a requeue of Slurm's own escapes the list of causes.
@test "a job that does not name the cause does not run again" {
    job_that_runs "$(sleeps_first)" '{"on": ["75"]}' '{"partition": "requeued"}' | submit unnamed
    preempt unnamed
    goes_on unnamed
    run batchai job wait --name unnamed
    [[ $status -ne 0 ]]
    show unnamed | jq -e '.executionInfo.errors[0] | .code == "JobPreempted"
        and any(.details[]; .value | contains("the job is not run again"))'
    run output_of unnamed
    [[ $output != *done* ]]
}

@test "a job is run again off the node that failed, and off the user's own" {
    job_that_runs "$(sleeps_first)" '{"on": ["nodeFailure"], "excludeFailedNodes": true}' \
        '{"exclude": "h1"}' null 2 | submit bereft
    wait_until 60 ranks_run bereft
    local node id
    id=$(slurm_id bereft)
    node=$(as_user scontrol show hostnames "$(nodes_of bereft)" | tail -n 1)
    kill_slurmd "$node"
    wait_until 90 waits_again bereft
    as_root_on "$node" bash -c 'pkill -KILL slurmstepd; pkill -KILL -u alice; true'
    start_slurmd "$node"
    wait_until 60 nodes_idle 4
    run -0 as_user scontrol --oneliner show job "$id"
    [[ $output == *" ExcNodeList=h1,$node "* ]]
    goes_on bereft
    run -0 batchai job wait --name bereft
    [[ $(attempts bereft | jq -c 'map(.[0])') == '["lostNode","program"]' ]]
}

# Breaks when a requeue brings back a job that its user has ended.
@test "a job that is ended while it waits to run again stays ended" {
    job_that_runs 'exit 75' '{"on": ["75"]}' | submit ended
    job_that_runs 'exit 75' '{"on": ["75"]}' | submit cancelled
    wait_until 90 waits_again ended
    wait_until 90 waits_again cancelled
    run -0 batchai job terminate --name ended --yes
    as_user scancel "$(slurm_id cancelled)"
    local job
    for job in ended cancelled; do
        run batchai job wait --name "$job"
        [[ $status -ne 0 ]]
        state_is "$job" failed
        has_ended "$(slurm_id "$job")"
    done
}

# Breaks when an unknown state is taken for a failure.
@test "a job that waits to run again has not failed when Slurm does not answer" {
    job_that_runs 'exit 75' '{"on": ["75"]}' | submit unknown
    wait_until 90 waits_again unknown
    as_user sh -c "sed 's/^SlurmctldPort=.*/SlurmctldPort=1/' /etc/slurm/slurm.conf > $HOME_DIR/slurm.conf"
    run batchai_with "SLURM_CONF=$HOME_DIR/slurm.conf" job show --name unknown
    [[ $status -ne 0 && $output == *"does not answer"* && $output != *failed* ]]
    batchai job terminate --name unknown --yes
}

# tell_slurmctld SIGNAL
# shellcheck disable=SC2016 # for the inner shell
tell_slurmctld() { as_root_on login bash -c 'kill -"$1" "$(cat /run/slurm/slurmctld.pid)"' tell "$1"; }

# Breaks when a controller that is being restarted ends a job that is to run again.
@test "a job is run again although Slurm does not answer when the attempt ends" {
    job_that_runs "touch $HOME_DIR/runs; until [ -e $HOME_DIR/may-fail ]; do sleep 0.2; done; $(fails_first 75)" \
        '{"on": ["75"]}' | submit silent
    wait_until 60 as_user test -e "$HOME_DIR/runs"
    tell_slurmctld STOP
    as_user touch "$HOME_DIR/may-fail"
    sleep 12
    tell_slurmctld CONT
    goes_on silent
    run -0 batchai job wait --name silent
    [[ $(attempts silent) == '[["program",75],["program",0]]' ]]
}

# Breaks when the answer of the controller is lost.
@test "a job that Slurm may not queue again says so" {
    job_that_runs 'exit 75' '{"on": ["75"]}' | write_home refused.json
    as_user bash -c "cd $HOME_DIR && sbatch --no-requeue --job-json=refused.json --output=refused.log \
        --wrap 'batchai run'"
    wait_until 60 said "Slurm does not queue it again: scontrol: Requested operation is presently disabled"
}
said() { as_user grep -qF "$1" "$HOME_DIR/refused.log"; }

@test "a job that runs into its time limit is run again" {
    goes_on limit
    run -0 batchai job wait --name limit
    [[ $(attempts limit | jq -c 'map(.[0])') == '["timeLimit","program"]' ]]
}

# Breaks when the ranks are killed before they have saved, or the exit code hides the cause.
@test "ranks are told before the time limit, and the job is run again" {
    goes_on warned
    run -0 batchai job wait --name warned
    [[ $(attempts warned) == '[["timeLimit",75],["program",0]]' ]]
    run -0 batchai job logs warned --attempt 1
    [[ $output == *ready*saved* ]]
}

@test "ranks are told of a pre-emption, and have time to save" {
    job_that_runs "$(stops_at_the_signal)" '{"on": ["preemption"]}' '{"partition": "requeued"}' |
        jq '.properties.checkpoint = {before: "PT1M"}' | submit told
    wait_until 60 has_said told ready
    preempt told
    goes_on told
    run -0 batchai job wait --name told
    [[ $(attempts told | jq -c 'map(.[0])') == '["preemption","program"]' ]]
    run -0 batchai job logs told --attempt 1
    [[ $output == *ready*saved* ]]
}

@test "a signal of the user's own and \"checkpoint\" are refused together" {
    job_that_runs true '{"on": ["75"]}' | jq '.properties.checkpoint = {before: "PT1M"}' | write_home both.json
    run batchai job create --name both --config-file both.json -- --signal=USR1@60
    [[ $status -eq 3 ]]
    [[ $output == *'"checkpoint" and --signal contradict each other'*E119* ]]
}

# Breaks when the records still say that the job has ended, or that its user has ended it.
@test "a job that was terminated can be resumed, and one that runs or has succeeded cannot" {
    job_that_runs "$(sleeps_first)" '{"on": ["75"]}' | submit resumed
    wait_until 60 ranks_run resumed
    run batchai job resume --name resumed
    [[ $status -eq 4 && $output == *"the job has not ended"* ]]
    batchai job terminate --name resumed --yes
    run -0 batchai job resume --name resumed
    goes_on resumed
    state_is resumed queued || state_is resumed running || state_is resumed succeeded
    run -0 batchai job wait --name resumed
    [[ $(attempts resumed | jq -c 'map(.[0])') == '["user","program"]' ]]
    run batchai job resume --name resumed
    [[ $status -eq 4 && $output == *"the job has succeeded"* ]]
}
