#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# A job has succeeded only if each of its ranks has started and has ended with 0, and where the disk
# is the cause, the disk is named.

bats_require_minimum_version 1.5.0
load lib

setup_file() {
    make_home starts
    site_lua <<< 'return {default_partition = "main"}' | write_home site.lua
}

# What a test has mounted over the records.
teardown() {
    local host
    for host in h1 h3; do
        as_root_on "$host" sh -c '! mountpoint -q "$1" || umount -l "$1"' umount "$HOME_DIR/records"
    done
}

teardown_file() {
    cancel_jobs
    wait_until 60 nothing_is_queued
    as_user chmod -R u+rwX "$HOME_DIR"
    remove_home
}

# batchai WORDS…: the suite's own site.
batchai() { batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua" "$@"; }

# submit NAME COMMAND [KEYS]: a job of two ranks on h1 and h3, whose logs are not among its records.
submit() {
    jq -n --arg command "$2" --argjson more "{${3:-}}" --arg home "$HOME_DIR" '{properties: ({
        nodeCount: 2, stdOutErrPathPrefix: ($home + "/logs"), slurm: {nodelist: "h1,h3"},
        customMpiSettings: {processCount: 2, commandLine: $command}} + $more)}' | write_home "$1.json"
    create "$1"
}
attempts_of() { echo "$HOME_DIR/records/groups/default/workspaces/default/experiments/default/jobs/$1/attempts"; }

# did_not_start NAME TEXT: the job has failed, says so and who, and the log tells it as well.
did_not_start() {
    local failure
    run batchai job wait --name "$1"
    [[ $status -ne 0 ]] || { echo "$output" >&2; return 1; }
    failure=$(failure_of "$1")
    jq -e --arg text "$2" '.EndedBy == "start" and .code == "JobStartFailed"
        and (.FirstErrorLine | contains($text))' <<< "$failure" || { echo "$failure" >&2; return 1; }
    batchai job show --name "$1" --output json | jq -e '.attempts[-1].endedBy == "start"'
    as_user sh -c "cat $HOME_DIR/logs/*/*/*/*/*/*/*/$1/*/stdouterr/execution*.log" | grep -F -- "$2"
}

# Breaks when Slurm's number for it is taken for the signal of a program, and nobody says what to do.
@test "a job whose node does not see its records is told so" {
    local records="/tmp/records-$BATS_TEST_NUMBER-$$"
    here() { as_user_on login env "BATCHAI_HOME=$records" "BATCHAI_SITE=$HOME_DIR/site.lua" "$PREFIX/bin/batchai" "$@"; }
    submit seen true
    batchai job wait --name seen
    here job create --name unseen --config-file "$HOME_DIR/seen.json" --output none
    run here job wait --name unseen
    as_user_on login rm -rf "$records"
    [[ $status -ne 0 && $output == *"Slurm could not open slurm.log"*BATCHAI_HOME* ]]
    [[ $output == *"EndedBy: start"* && $output != *"exit code"* ]]
}

# Breaks when srun's 0 is believed after it has started no rank: the job would be a success.
@test "ranks whose output files cannot be made have not succeeded" {
    # Once the preparation has started on both nodes.
    submit none "touch $HOME_DIR/ran" "\"jobPreparation\": {\"commandLine\": \"cd $HOME_DIR && touch prepares-\$AZ_BATCH_NODE_ID; until test -e prepares-h1 -a -e prepares-h3; do sleep 0.1; done; chmod 500 $(attempts_of none)\"}"
    batchai job wait --name none || true
    # The rank of the node that fails first.
    local rank
    rank=$(failure_of none | jq -er '.FirstErrorLine | capture("^rank (?<rank>[01]) on ").rank')
    did_not_start none "rank $rank on h$((2 * rank + 1)) did not start: its output file cannot be made: $(attempts_of none)/1.stderr-$rank.txt: Permission denied"
    run ! as_user test -e "$HOME_DIR/ran"
}

# Breaks when a rank that was not started is not missed, or the others wait for it.
@test "a rank that one node could not start is named, and the others are ended" {
    submit one "touch $HOME_DIR/ran-\$OMPI_COMM_WORLD_RANK; sleep 600" \
        "\"jobPreparation\": {\"commandLine\": \"test \$AZ_BATCH_NODE_ID != h3 || touch $HOME_DIR/prepared; while ! test -e $HOME_DIR/go; do sleep 0.2; done\"}"
    wait_until 60 as_user test -e "$HOME_DIR/prepared"
    as_root_on h3 sh -c 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"' ro "$HOME_DIR/records"
    as_user touch "$HOME_DIR/go"
    did_not_start one "rank 1 on h3 did not start: its output file cannot be made: "
    as_root_on h3 umount "$HOME_DIR/records"
    [[ $(failure_of one | jq -r '.Node + .Rank') == h31 ]]
}

# Breaks when the preparation of a node that could not be started counts as done.
@test "a preparation that one node could not start is named" {
    as_user mkdir -p "$HOME_DIR/records"
    as_root_on h3 sh -c 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"' ro "$HOME_DIR/records"
    submit unprepared true '"jobPreparation": {"commandLine": "true"}'
    did_not_start unprepared "the preparation on h3 did not start: its output file cannot be made: "
}

# on_small_disk SIZE: the records of the user's commands on h1 are on a disk of that size of its own.
on_small_disk() {
    as_user mkdir -p "$HOME_DIR/records"
    as_root_on h1 mount -t tmpfs -o "size=$1,uid=20001,mode=700" tmpfs "$HOME_DIR/records"
}
batchai_on_h1() {
    as_user_on h1 env "BATCHAI_HOME=$HOME_DIR/records" "BATCHAI_SITE=$HOME_DIR/site.lua" \
        "$PREFIX/bin/batchai" "$@"
}
# job_on_h1 COMMAND KEYS
job_on_h1() {
    jq -n --arg home "$HOME_DIR" --arg command "$1" --argjson more "{$2}" '{properties: ({
        nodeCount: 1, stdOutErrPathPrefix: ($home + "/logs"), slurm: {nodelist: "h1"},
        customMpiSettings: {commandLine: $command}} + $more)}'
}
fill='cat /dev/zero > "$1/fill" 2> /dev/null; true'

# Breaks when nothing tells that the disk is the cause: the record of the end does not fit on it, either.
@test "a job whose records are on a disk that has become full names the disk" {
    on_small_disk 1m
    job_on_h1 "touch $HOME_DIR/ran-full" '"slurm": {"nodelist": "h1", "begin": "now+1hour"}' | write_home full.json
    batchai_on_h1 job create --name full --config-file "$HOME_DIR/full.json" --output none
    as_user_on h1 sh -c "$fill" fill "$HOME_DIR/records"
    as_root_on login scontrol update \
        "job=$(batchai_on_h1 job show --name full --query slurmJobId --output tsv)" StartTime=now
    run batchai_on_h1 job wait --name full
    [[ $status -ne 0 && $output == *"No space left on device"* ]]
    batchai_on_h1 job show --name full --output json | jq -e '.attempts[-1].endedBy == "start"
        and (.executionInfo.errors[0].message | contains("No space left on device"))'
    run ! as_user test -e "$HOME_DIR/ran-full"
}

# Breaks when the disk, which the program has no room to name, is not named.
@test "a program that fails because the disk with the records is full is told with the disk" {
    on_small_disk 2m
    job_on_h1 "sh -c '$fill' fill $HOME_DIR/records; echo no room; exit 5" '' | write_home filled.json
    batchai_on_h1 job create --name filled --config-file "$HOME_DIR/filled.json" --output none
    run batchai_on_h1 job wait --name filled
    [[ $status -ne 0 ]]
    batchai_on_h1 job show --name filled --query executionInfo.errors[0] --output json |
        jq -e '[.details[] | select(.name == "FirstErrorLine") | .value][0] | contains("No space left on device")'
}

# Breaks when the plugin's word does not come through: each job would need the second witness.
@test "starts are confirmed by the plugin, and by srun and the files where there is no room for its note" {
    submit well true '"jobPreparation": {"commandLine": "true"}'
    wait_until 60 state_is well succeeded
    run lines_like 'is not confirmed' as_user sh -c "cat $HOME_DIR/logs/*/*/*/*/*/*/*/well/*/stdouterr/execution*.log"
    [[ $status -eq 0 && -z $output ]]
    run ! as_user sh -c "ls $(attempts_of well) | grep started"

    on_small_disk 2m
    local disk=$HOME_DIR/records
    job_on_h1 true "\"jobPreparation\": {\"commandLine\": \"touch $disk/fills; until test -e $disk/is-full; do sleep 0.1; done\"}" |
        write_home tight.json
    # What becomes free before the ranks start is taken at once, too.
    as_user_on h1 sh -c 'until [ -e "$1/fills" ] || [ ! -d "$1" ]; do sleep 0.1; done
        while [ -e "$1/fills" ]; do cat /dev/zero >> "$1/fill" 2> /dev/null; : > "$1/is-full"; done' \
        fill "$disk" 3>&- 4>&- &
    batchai_on_h1 job create --name tight --config-file "$HOME_DIR/tight.json" --output none
    run batchai_on_h1 job wait --name tight
    [[ $status -eq 0 ]]
    as_user_on h1 rm "$disk/fills"
    wait $!
    as_user sh -c "cat $HOME_DIR/logs/*/*/*/*/*/*/*/tight/*/stdouterr/execution*.log" |
        grep 'the start of rank 0 is not confirmed'
}
