#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# With slurmctld stopped every verb that needs it says so within five seconds, and changes nothing.

bats_require_minimum_version 1.5.0
load lib

home=/home/alice/down
parents=(--resource-group group --workspace space)
experiment=("${parents[@]}" --experiment trial)

batchai() { as_user env BATCHAI_HOME=$home/records "$PREFIX/bin/batchai" "$@"; }

# to_controller SIGNAL: to slurmctld, all of it.
to_controller() { as_root_on login pkill "$1" -x slurmctld; }

controller_answers() { as_user scontrol ping | grep -q ' is UP'; }

# shellcheck disable=SC2016 # for the shell on that host
controller_is_gone() { prints_nothing as_root_on login bash -c 'pgrep -x slurmctld || [[ $? -eq 1 ]]'; }

setup_file() {
    as_user mkdir -p $home
    as_user tee $home/job.json > /dev/null << 'JSON'
{"properties": {"nodeCount": 1, "stdOutErrPathPrefix": "/home/alice/down",
                "customToolkitSettings": {"commandLine": "touch /home/alice/down/runs; sleep 600"}}}
JSON
    as_user sed 's/touch.*600/true/' $home/job.json | as_user tee $home/short.json > /dev/null
    batchai group create --name group --location local
    batchai workspace create --name space --resource-group group
    batchai experiment create --name trial "${parents[@]}"
    batchai cluster create --name nc6 "${parents[@]}" --vm-size standard_nc6 --target 2
    batchai job create --name long "${experiment[@]}" --config-file $home/job.json
    batchai job create --name short "${experiment[@]}" --config-file $home/short.json
    batchai job wait --name short "${experiment[@]}"
    # What is noted of its start may come late on a busy machine.
    wait_until 60 as_user test -e $home/runs
    wait_until 60 records_have_settled
    # Frozen: it takes connections and says nothing. The last test ends it for good.
    to_controller -STOP
}

teardown_file() {
    to_controller -CONT || as_root_on login slurmctld
    wait_until 60 controller_answers
    batchai job delete --name long "${experiment[@]}" --yes
    as_user rm -rf $home
    wait_until 60 nodes_idle 4
    no_node_is_drained
}

# What the running job uses is noted all the time.
records() { as_user find $home/records -type f -not -name '*.usage-*' -exec sha256sum {} + | sort; }

# records_have_settled: for wait_until; the job that runs writes no more while it starts.
records_have_settled() {
    local before
    before=$(records)
    sleep 2
    [[ $before == "$(records)" ]]
}

# refused_soon VERB…: fails within five seconds of Slurm's silence, says why and what to do, and
# leaves all records as they were.
refused_soon() {
    local before after start took
    before=$(records)
    # The best of three: a busy machine may hold up one.
    for _ in 1 2 3; do
        start=${EPOCHREALTIME/./}
        run ! batchai "$@"
        took=$((${EPOCHREALTIME/./} - start))
        echo "$* took $((took / 1000)) ms: $output"
        [[ $output == *"Slurm's controller does not answer"* ]] || return 1
        [[ $output == *"scontrol ping"* ]] || return 1
        if ((took < 5000000)); then break; fi
    done
    ((took < 5000000)) || return 1
    after=$(records)
    diff <(echo "$before") <(echo "$after") || return 1
    [[ -n $before ]]
}

# Breaks when a verb waits for MessageTimeout, acts on half an answer, or writes before it asks.
@test "verbs of jobs say that Slurm does not answer" {
    refused_soon job create --name other "${experiment[@]}" --config-file $home/job.json
    refused_soon job list "${experiment[@]}"
    refused_soon job show --name long "${experiment[@]}"
    refused_soon job wait --name long "${experiment[@]}"
    refused_soon job terminate --name long "${experiment[@]}" --yes
    refused_soon job delete --name long "${experiment[@]}" --yes
    refused_soon job file stream --job long "${experiment[@]}" --file-name stdout.txt
    refused_soon job node list --job long "${experiment[@]}"
    refused_soon job node exec --job long "${experiment[@]}" --exec true
}

@test "a job that ended is not deleted either" {
    refused_soon job delete --name short "${experiment[@]}" --yes
    refused_soon job terminate --name short "${experiment[@]}" --yes
}

@test "verbs of clusters and parents say it too" {
    refused_soon cluster create --name other "${parents[@]}" --vm-size standard_nc6 --target 1
    refused_soon cluster resize --name nc6 "${parents[@]}" --target 1
    refused_soon cluster auto-scale --name nc6 "${parents[@]}" --min 0 --max 1
    refused_soon experiment delete --name trial "${parents[@]}" --yes
    refused_soon workspace delete --name space --resource-group group --yes
    refused_soon group delete --name group --yes
}

# Breaks when a listing of clusters, which has an answer without Slurm, hides that a part is missing.
@test "a cluster is shown with the fault in it" {
    for verb in "show --name nc6" list; do
        for _ in 1 2 3; do
            start=${EPOCHREALTIME/./}
            # shellcheck disable=SC2086
            run -0 batchai cluster $verb "${parents[@]}"
            took=$((${EPOCHREALTIME/./} - start))
            if ((took < 5000000)); then break; fi
        done
        ((took < 5000000))
        [[ $output == *SlurmUnavailable* ]]
        [[ $output == *"Slurm's controller does not answer"* ]]
    done
}

@test "what needs no Slurm works" {
    run -0 batchai job create --name dry "${experiment[@]}" --config-file $home/job.json --dry-run
    run -0 batchai validate $home/job.json
    run -0 batchai job file list --job short "${experiment[@]}"
    run -0 batchai job show --name short "${experiment[@]}" --query executionState
    [[ $output == *succeeded* ]]
}

# Breaks when a refused connection is met otherwise than a silent one: Slurm's commands try again
# for as long as MessageTimeout says.
@test "a controller that is gone is told as one that is silent" {
    to_controller -CONT
    site_has backup && skip "the second controller takes over here: failover.bats"
    to_controller -TERM
    wait_until 60 controller_is_gone
    refused_soon job create --name other "${experiment[@]}" --config-file $home/job.json
    refused_soon job list "${experiment[@]}"
    refused_soon job terminate --name long "${experiment[@]}" --yes
    refused_soon cluster resize --name nc6 "${parents[@]}" --target 1
    as_root_on login slurmctld
    wait_until 60 controller_answers
    run -0 batchai job show --name long "${experiment[@]}" --query executionState
    [[ $output == *running* ]]
}
