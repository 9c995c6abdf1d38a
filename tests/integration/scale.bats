#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Clusters that really scale: on a cluster of its own, on which Slurm ends hosts that it powers down
# and starts them again. alice is an administrator of Slurm, and bob is not.

bats_require_minimum_version 1.5.0
load lib

setup_file() {
    own_cluster pow --power-saving
    make_home scale
    as_root_on login sacctmgr -i --quiet modify user alice set adminlevel=administrator
    as_root_on login install -d -m 777 /shared/logs /shared/scale
    batchai cluster create --name nc6 --vm-size nc6 --target 4 --output none
}

teardown_file() { "$MINICLUSTER" down --keep-logs; }

setup() { directory=${MINICLUSTER_HOME:-/var/lib/minicluster}/$MINICLUSTER_NAME; }

# hosts_run COUNT: so many compute hosts have processes.
hosts_run() {
    local count
    count=$(pgrep -fc "^minicluster-host.$directory.h[0-9]+ infinity") || [[ $? -eq 1 ]] || return
    [[ $count -eq $1 ]] || { echo "$count hosts run"; return 1; }
}

# Of the suite's cluster, unless CLUSTER names another.
cluster() { batchai cluster "$1" --name "${CLUSTER:-nc6}" "${@:2}"; }
resize() { cluster resize --target "$1" --output none; }
# The counts as "idle running preparing leaving unusable", then the nodes that there are and State.
counts() {
    cluster show | jq -r '.nodeStateCounts as $c | "\($c.idleNodeCount) \($c.runningNodeCount)"
        + " \($c.preparingNodeCount) \($c.leavingNodeCount) \($c.unusableNodeCount)"
        + " \(.currentNodeCount) \(.allocationState)"'
}
counts_are() {
    local found
    found=$(counts) || return
    [[ $found == "$1" ]] || { echo "$found"; return 1; }
}
# full_size: all hosts run, and Slurm has them.
full_size() { wait_until 90 counts_are "4 0 0 0 0 4 steady"; }

# job NAME NODES COMMAND: on the cluster.
job() {
    jq -n --argjson nodes "$2" --arg command "$3" '{properties: {nodeCount: $nodes,
        stdOutErrPathPrefix: "/shared/logs", customToolkitSettings: {commandLine: $command}}}' |
        write_home "$1.json"
    batchai job create --name "$1" --cluster "${CLUSTER:-nc6}" --config-file "$1.json" --output none
}
until_released() { echo "until [ -e /shared/scale/$1 ]; do sleep 0.2; done"; }
release() { as_user touch "/shared/scale/$1"; }
slurm_id() { batchai job show --name "$1" --query slurmJobId --output tsv; }
reason_is() { [[ $(as_user squeue -h -j "$(slurm_id "$1")" -o '%T %r') == "$2" ]]; }

restart_slurmctld() {
    as_root_on login pkill -x slurmctld
    wait_until 60 prints_nothing lines_like '^slurmctld$' as_root_on login ps -eo comm=
    as_root_on login slurmctld
    wait_until 60 as_user scontrol ping
}

# Breaks when resize only edits a record, or when a host that was powered down leaves processes.
@test "a target of 0 ends the hosts, and a target of 4 brings them back" {
    full_size
    [[ $(cluster show --query scaling --output tsv) == "power saving" ]]
    resize 0
    wait_until 60 hosts_run 0
    wait_until 60 counts_are "0 0 0 0 0 0 steady"
    run "$MINICLUSTER" status
    [[ $status -eq 0 && $output == *"(switched off)"* ]]
    resize 4
    full_size
    hosts_run 4
}

# Breaks when a cluster forgets its nodes because something did not answer just then.
@test "a cluster keeps its nodes when Slurm's accounting does not answer" {
    full_size
    as_user mkdir "$HOME_DIR/silent"
    write_home silent/sacctmgr <<< $'#!/bin/sh\necho "sacctmgr: error: Unable to contact slurm database" >&2\nexit 1'
    as_user chmod +x "$HOME_DIR/silent/sacctmgr"
    run batchai_with "PATH=$HOME_DIR/silent:$PATH" cluster resize --name nc6 --target 1 --output none
    echo "$output"
    [[ $status -ne 0 && $output == *"Unable to contact slurm database"* ]]
    [[ $(cluster show --query scaling --output tsv) == "power saving" ]]
    counts_are "4 0 0 0 0 4 steady"
    # The same resize takes the nodes when it is given again.
    resize 3
    wait_until 60 counts_are "3 0 0 0 0 3 steady"
    resize 4
    full_size
}

# Breaks when a job waits for nodes that Slurm has powered down for their idle time.
@test "a queued job brings hosts back" {
    full_size
    as_root_on login scontrol update nodename=h[1-4] state=POWER_DOWN_ASAP
    wait_until 60 hosts_run 0
    wait_until 60 counts_are "0 0 0 0 0 0 steady"
    job wakes 2 'echo $SLURM_JOB_NUM_NODES'
    batchai job wait --name wakes 2> /dev/null
    [[ $(output_of wakes) == 2 ]]
    hosts_run 2
}

# Breaks when a host that stays away is missing without a word, or is lost for good.
@test "a host that does not come up is named, and the next resize tries it again" {
    "$MINICLUSTER" power --host h3 broken
    resize 0
    wait_until 60 hosts_run 0
    resize 4
    wait_until 120 counts_are "3 0 0 0 1 3 steady"
    cluster show --query errors | jq -e '.[0].code == "NodeDidNotStart"
        and (.[0].message | startswith("node h3 did not come up: ResumeTimeout reached"))'
    "$MINICLUSTER" power --host h3 sound
    resize 4
    full_size
    [[ $(cluster show --query errors) == null ]]
}

# Breaks when a node with a job is powered down under it, when a job that no longer fits is lost or
# brings nodes back above the target, or when a restarted slurmctld forgets what is going on.
@test "a resize while jobs run loses none of them, with a restart of slurmctld in between" {
    full_size
    job runs 2 "$(until_released runs); echo ended"
    wait_until 60 state_is runs running
    job waits 4 'echo $SLURM_JOB_NUM_NODES'
    run --separate-stderr cluster resize --target 1 --output none
    # shellcheck disable=SC2154 # set by run
    [[ $status -eq 0 && $stderr == *"held until the cluster is large enough"* ]]
    wait_until 60 reason_is waits 'PENDING JobHeldUser'
    wait_until 60 hosts_run 2
    wait_until 60 counts_are "0 1 0 1 0 1 resizing"
    restart_slurmctld
    wait_until 60 counts_are "0 1 0 1 0 1 resizing"
    state_is runs running
    # A slurmctld of 22.05 has forgotten that h2 is to go. A resize tells it again.
    resize 1
    release runs
    batchai job wait --name runs 2> /dev/null
    [[ $(output_of runs) == ended ]]
    wait_until 60 hosts_run 1
    reason_is waits 'PENDING JobHeldUser'
    resize 4
    batchai job wait --name waits 2> /dev/null
    [[ $(output_of waits) == 4 ]]
    full_size
}

# Breaks when a user who may not power nodes is told that the nodes follow, or gets an error.
@test "for an ordinary user the target is a cap, and show says so" {
    bobs() { as_bob "$PREFIX/bin/batchai" cluster "$@" --name small; }
    run --separate-stderr bobs create --vm-size nc6 --target 1 --query scaling --output tsv
    [[ $status -eq 0 && $output == cap ]]
    [[ $stderr == *"is a cap"*"only an administrator of Slurm may power nodes"* ]]
    bobs resize --target 0 --output none
    hosts_run 4
    run as_bob scontrol update nodename=h1 state=POWER_DOWN_ASAP
    [[ $status -ne 0 ]]
    bobs delete --yes
}

# Breaks when one cluster takes the nodes of another.
@test "two clusters share the nodes, and each takes only its own" {
    resize 2
    wait_until 60 hosts_run 2
    batchai cluster create --name other --vm-size nc6 --target 2 --output none
    wait_until 60 hosts_run 4
    batchai cluster resize --name other --target 0 --output none
    wait_until 60 hosts_run 2
    wait_until 60 counts_are "2 0 0 0 0 2 steady"
    batchai cluster delete --name other --yes
    resize 4
    full_size
}

setup_runs() { as_user bash -c 'cat /shared/scale/setup-runs 2> /dev/null | sort | uniq -c'; }

# Breaks when the setup task runs more than once on a node, runs as root, or not before the job.
@test "a setup task runs once on each node, and again after the node has started again" {
    as_user rm -f /shared/scale/setup-runs
    as_user tee "$HOME_DIR/cluster.json" > /dev/null << 'JSON'
{"properties": {"vmSize": "nc6", "scaleSettings": {"manual": {"targetNodeCount": 2}},
 "nodeSetup": {"setupTask": {
    "commandLine": "echo \"$SLURMD_NODENAME $(id -u) $WORD\" | tee -a /shared/scale/setup-runs; touch /tmp/set-up",
    "environmentVariables": [{"name": "WORD", "value": "it's $AZ_BATCHAI_CLUSTER_NAME"}],
    "stdOutErrPathPrefix": "/shared/setup"}}}}
JSON
    as_root_on login install -d -m 777 /shared/setup
    resize 0
    wait_until 60 hosts_run 0
    batchai cluster create --name prepared --config-file cluster.json --output none
    suffix=$(batchai cluster show --name prepared --query nodeSetup.setupTask.stdOutErrPathSuffix --output tsv)
    [[ $suffix == */workspaces/default/clusters/prepared/* ]]
    for name in first second; do
        CLUSTER=prepared wait_until 60 counts_are "2 0 0 0 0 2 steady"
        CLUSTER=prepared job $name 2 'ls /tmp/set-up'
        batchai job wait --name $name 2> /dev/null
    done
    runs=$(setup_runs)
    lines_are 2 "$runs"
    [[ $(lines_like "^ +1 h[1-4] $(as_user id -u) it's prepared\$" echo "$runs" | grep -c .) -eq 2 ]]
    batchai job show --name first | jq -e '.attempts[0].exitCode == 0'
    lines_are 2 "$(as_user sh -c "cat '/shared/setup/$suffix'/stdout-h*.txt")"
    # What a node has done is gone with its /tmp, and it is started anew.
    CLUSTER=prepared resize 0
    wait_until 60 hosts_run 0
    CLUSTER=prepared resize 2
    CLUSTER=prepared wait_until 60 counts_are "2 0 0 0 0 2 steady"
    CLUSTER=prepared job third 2 'ls /tmp/set-up'
    batchai job wait --name third 2> /dev/null
    [[ $(as_user grep -c . /shared/scale/setup-runs) -eq 4 ]]
    batchai cluster delete --name prepared --yes
    resize 4
    full_size
}

# Breaks when a failed setup is taken for a failure of the job's program.
@test "a setup task that fails ends the job with a cause of its own" {
    batchai cluster create --name bad --vm-size nc6 --target 0 --output none \
        --setup-task 'echo "error: no scratch disk" >&2; exit 7' --setup-task-output /shared/setup
    batchai cluster resize --name bad --target 1 --output none
    CLUSTER=bad job unlucky 1 'echo never'
    run batchai job wait --name unlucky
    [[ $status -eq 7 ]]
    failure_of unlucky | jq -e '.code == "NodeSetupFailed" and .exitCode == 7
        and (.Node | startswith("h"))'
    [[ $(batchai job show --name unlucky --query 'attempts[0].endedBy' --output tsv) == nodeSetup ]]
    [[ $(output_of unlucky) != *never* ]]
    batchai cluster delete --name bad --yes
}

# watch_counts FILE: appends what show says of the cluster, one line each, until FILE.stop exists.
watch_counts() {
    until [[ -e $1.stop ]]; do
        cluster show --output json | jq -c . >> "$1" || echo '"show has failed"' >> "$1"
    done
}

# Breaks when a count is negative or above the target at any time, or a job is lost.
@test "many short jobs, resizes and a restart of slurmctld: all counts hold and no job is lost" {
    full_size
    jobs=${SCALE_JOBS:-20}
    watched=$BATS_TEST_TMPDIR/watched
    watch_counts "$watched" 3>&- &
    watcher=$!
    for ((i = 1; i <= jobs; i++)); do
        job "short$i" 1 'sleep 0.3'
        case $((i * 20 / jobs)) in
            6) targets+=" 2" ;;
            10) targets+=" 4" ;;
        esac
        if [[ ${targets##* } != "${target:-4}" && -n ${targets:-} ]]; then
            target=${targets##* }
            resize "$target"
        fi
        if [[ $i -eq $((jobs * 3 / 4)) ]]; then restart_slurmctld; fi
    done
    wait_until 600 nothing_is_queued
    touch "$watched.stop"
    wait "$watcher"
    [[ $(batchai job list | jq '[.[] | select(.name | startswith("short"))
        | select(.executionState == "succeeded")] | length') -eq $jobs ]]
    # While slurmctld is away there are no counts, and the errors say so.
    jq -se 'length > 10 and all(.[]; .scaleSettings.manual.targetNodeCount as $target
        | [.nodeStateCounts[], .currentNodeCount] as $counts
        | .nodeStateCounts as $c
        | ($counts | all(. >= 0 and . <= 4)) and .currentNodeCount <= $target
        and $c.idleNodeCount + $c.runningNodeCount + $c.preparingNodeCount
            + $c.unusableNodeCount <= $target)' "$watched" > /dev/null ||
        { cat "$watched"; return 1; }
    full_size
}
