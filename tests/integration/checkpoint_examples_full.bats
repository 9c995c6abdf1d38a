#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The examples with checkpoints, each ended by all causes after which a job is run again. They lose
# nothing that a checkpoint has.

bats_require_minimum_version 1.5.0
load lib
load retry

setup_file() {
    make_home checkpoint-examples
    as_user mkdir -p "$HOME_DIR/myshare/digits"
    write_home site.lua << LUA
return {
  python_interpreter = "$PYTHON",
  environment = { PYTHONPATH = "$PREFIX/lib/batchai/python" },
  storage_accounts = {
    mystorageaccount = { file_share_directory = "$HOME_DIR/%s" },
  },
}
LUA
}

teardown_file() {
    cancel_jobs
    wait_until 60 nodes_idle 4 || return 1
    remove_home
}

# Brings back the node that a test has lost.
teardown() {
    local host
    for host in h1 h2 h3 h4; do
        as_root_on "$host" pgrep -x "$(slurmd_pattern)" > /dev/null && continue
        # As after a restart, which also empties /tmp: nothing else removes what jobs had there.
        as_root_on "$host" bash -c 'pkill -KILL slurmstepd; pkill -KILL -u alice; rm -rf /tmp/batchai-*'
        start_slurmd "$host"
    done
    cancel_jobs
    wait_until 60 nodes_idle 4
}

# batchai WORDS…: in the suite's own home and site; standard input passes through.
batchai() { batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua" "$@"; }

# logs NAME ATTEMPT, has_printed NAME ATTEMPT TEXT
logs() { batchai job logs "$1" --attempt "$2" 2> /dev/null; }
has_printed() { logs "$1" "$2" | grep "^$3" > /dev/null; }
# place NAME ATTEMPT WORD: the epoch and the step of the line that begins with WORD, as one number.
place() { logs "$1" "$2" | sed -nE "s/^$3.* epoch ([0-9]+), step ([0-9]+)$/\1 \2/p" | awk '{ print $1 * 1000 + $2 }'; }
has_attempts() { show "$1" | jq -e --argjson count "$2" '.attempts | length == $count' > /dev/null; }

# goes_on_as NAME ATTEMPT: the job is queued again and begins its next attempt.
goes_on_as() {
    start_again "$(slurm_id "$1")"
    wait_until 90 has_attempts "$1" "$2"
    wait_until 90 has_printed "$1" "$2" "starts at"
}

# runs_through NAME FILE SCRIPT
runs_through() {
    local at node name=$1
    write_home "myshare/digits/$3" < "$SOURCE/examples/digits-checkpoint/$3"
    jq --arg python "$PYTHON" '.properties.jobPreparation.commandLine |= sub("^python3 "; $python + " ")
        | .properties.horovodSettings.commandLineArgs += " --pause=0.2 --epochs=6"
        | .properties.checkpoint.before = "PT6S" | .properties.retry.on += ["137"]
        | .properties.slurm = {partition: "requeued"}' \
        "$SOURCE/examples/digits-checkpoint/$2" | write_home "$name.json"
    batchai job create --name "$name" --config-file "$name.json" \
        --storage-account-name mystorageaccount --output none

    # The time limit is near: nothing is lost.
    wait_until 120 has_printed "$name" 1 "starts at epoch 0, step 0"
    noticed "$name"
    wait_until 90 has_printed "$name" 1 "stops after"
    goes_on_as "$name" 2
    logs "$name" 2
    [[ $(place "$name" 2 starts) -eq $(place "$name" 1 stops) ]]

    # A pre-emption: nothing is lost.
    preempt "$name"
    wait_until 90 has_printed "$name" 2 "stops after"
    goes_on_as "$name" 3
    logs "$name" 3
    [[ $(place "$name" 3 starts) -eq $(place "$name" 2 stops) ]]

    # A rank is killed, which the job file names by its exit code: what came after the last
    # checkpoint is lost, which is an epoch at most.
    wait_until 90 has_printed "$name" 3 "Epoch"
    node=$(as_user scontrol show hostnames "$(nodes_of "$name")" | tail -n 1)
    as_root_on "$node" pkill -KILL -u alice -f "$3"
    goes_on_as "$name" 4
    logs "$name" 4
    at=$(logs "$name" 3 | sed -nE 's/^Epoch ([0-9]+).*/\1/p' | tail -n 1)
    [[ $(place "$name" 4 starts) -ge $((at * 1000)) ]]

    # The loss of a node: as much. It comes back once the job has left it: Slurm would take the steps
    # of its next attempt for those that were lost.
    node=$(as_user scontrol show hostnames "$(nodes_of "$name")" | tail -n 1)
    kill_slurmd "$node"
    wait_until 90 waits "$name"
    goes_on_as "$name" 5
    logs "$name" 5
    [[ $(place "$name" 5 starts) -ge $(place "$name" 4 starts) ]]

    run -0 batchai job wait --name "$name"
    run -0 attempts "$name"
    echo "$output"
    [[ $(jq -c 'map(.[0])' <<< "$output") == '["timeLimit","preemption","program","lostNode","program"]' ]]
    [[ $(logs "$name" 5) == *"Epoch 6/6"*"has finished"* ]]
}

# Breaks when a cause is not the one that it was, or an example begins anew.
@test "the PyTorch example goes on after each cause" {
    runs_through torch job.json digits_checkpoint.py
}

@test "the Keras example goes on after each cause" {
    runs_through keras job-keras.json digits_checkpoint_keras.py
}
