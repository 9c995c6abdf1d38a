#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Jobs that start again in their own allocation: on a spare node, and where they are (docs/spare-nodes.md).

bats_require_minimum_version 1.5.0
load lib
load small_image

checks=/etc/batchai/health-spares.d # all hosts share it
image=/shared/spares-test.sqsh

setup_file() {
    make_home spares
    write_home steps.py < "$SOURCE/tests/integration/spares/steps.py"
    write_home waits.sh < "$SOURCE/tests/integration/spares/waits.sh"
}

teardown_file() {
    as_root_on login rm -rf "$checks" "$image"
    remove_home
    # Slurm 22.05 takes some cores of a node that a job has lost for used until it counts anew.
    as_root_on login scontrol reconfigure
    wait_until 60 nodes_idle 4
}

teardown() {
    cancel_jobs
    wait_until 60 nothing_is_queued
    local host
    for host in h1 h2 h3 h4; do host_lives "$host"; done
    wait_until 60 nodes_idle 4
}

batchai() { batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua" "$@"; }

# site TEXT: what is in the site's table.
site() { write_home site.lua <<< "return { $1 }"; }

# job_file NAME WAY [FILTER]: two ranks on h1 and h2 with h3 as a spare node. At step 5, rank 1 does as WAY says.
job_file() {
    as_user mkdir -p "$HOME_DIR/$1"
    jq -n --arg python "$PYTHON" --arg home "$HOME_DIR" --arg name "$1" --arg way "$2" \
        --arg modules "$PREFIX/lib/batchai/python" '{properties: {
            nodeCount: 2, spareNodes: 1, stdOutErrPathPrefix: "/shared/logs",
            slurm: {nodelist: "h[1-3]"},
            environmentVariables: [{name: "PLACE", value: ($home + "/" + $name)}, {name: "WAY", value: $way},
                                   {name: "PYTHONPATH", value: $modules}],
            customMpiSettings: {commandLine: ($python + " " + $home + "/steps.py")}}} | '"${3:-.}" |
        write_home "$1.json"
}
submit() {
    job_file "$@"
    batchai job create --name "$1" --config-file "$1.json" --output none
}

# has_come NAME START STEP: for wait_until; the ranks of the start have taken the step.
has_come() { as_user grep -q "^[0-9.]* $2 $3 " "$HOME_DIR/$1/times"; }
# has_gone_on NAME START: for wait_until; the ranks of the start have taken a step.
has_gone_on() { as_user grep -q "^[0-9.]* $2 " "$HOME_DIR/$1/times"; }

# ends_well NAME: told to, and no step is missing, comes twice or was taken by fewer ranks than two.
ends_well() {
    as_user touch "$HOME_DIR/$1/stop"
    run batchai job wait --name "$1"
    echo "$output"
    [[ $status -eq 0 ]] || return 1
    as_user cat "$HOME_DIR/$1/times" |
        awk '$3 != NR || $4 != 2 { print "step " NR ": " $0; wrong = 1 } END { exit wrong || !NR }'
}

# ran_on NAME FIRST SECOND: the ranks did, and were started once.
ran_on() {
    [[ $(attempts "$1") == '[["program",0]]' && $(places "$1") == "" ]] || return 1
    run batchai job logs "$1"
    echo "$output"
    [[ $output == *"rank 0 of 2 on $2 from 0"*"rank 1 of 2 on $3 from 0"* ]]
}

# places NAME: the nodes of the ranks at each start, as the attempt's record has them.
places() { record_of "$1" '[.restarts[].nodes | join(" ")] | join(", ")'; }
record_of() {
    as_user bash -c "find '$HOME_DIR/records' -path '*attempts/1.json' -newer '$HOME_DIR/$1.json' -exec cat {} +" |
        jq -r "$2"
}
attempts() { batchai job show --name "$1" --output json | jq -c '[.attempts[] | [.endedBy, .exitCode]]'; }
says() { batchai job file stream --job "$1" --file-name execution-h1.log; }

# Breaks when a job waits for Slurm to notice that a node is dead, or goes on with another size.
@test "a spare node takes the place of one that dies" {
    site ''
    submit dies pause '.properties.jobPreparation.commandLine = "echo ready"'
    wait_until 60 has_come dies 0 5
    host_dies h2
    # Slurm does not know it yet.
    wait_until 90 has_gone_on dies 1
    [[ $(as_user sinfo -h -n h2 -p main -o %T) == allocated* ]]
    ends_well dies
    [[ $(places dies) == "h1 h3" && $(attempts dies) == '[["program",0]]' ]]
    [[ $(record_of dies '.restarts[0].failure | [.code, .node] | join(" ")') == "NodeFailed h2" ]]
    run says dies
    echo "$output"
    [[ $output == *"the ranks start again on 2 of 3 nodes: h3 in the place of h2"* ]]
    run batchai job logs dies
    echo "$output"
    [[ $output == *"start 0: rank 1 of 2 on h2 from 0"*"start 1: rank 1 of 2 on h3 from 5"* ]]
    # All three were prepared.
    run batchai job file list --job dies --query '[].name' --output tsv
    [[ $output == *stdout-job_prep-h3.txt* ]]
}

# Breaks when a job waits as long as its ranks for a node that has no power: no rank ends, because no
# connection breaks.
@test "a spare node takes the place of one that loses its power" {
    site ''
    submit power none
    # So long that all nodes have answered pings.
    wait_until 60 has_come power 0 60
    host_loses_power h2
    wait_until 90 has_gone_on power 1
    [[ $(as_user sinfo -h -n h2 -p main -o %T) == allocated* ]]
    ends_well power
    [[ $(places power) == "h1 h3" ]]
    [[ $(record_of power '.restarts[0].failure | [.code, .node] | join(" ")') == "NodeFailed h2" ]]
}

@test "a spare node takes the place of one that an administrator sets down" {
    site ''
    submit down none
    wait_until 60 has_come down 0 5
    as_root_on login scontrol update nodename=h2 state=down reason=test
    wait_until 90 has_gone_on down 1
    ends_well down
    [[ $(places down) == "h1 h3" ]]
}

# Breaks when the spare node that is chosen is as dead as the other one.
@test "two nodes die at once, and the job goes on with the third" {
    site ''
    submit both pause '.properties.spareNodes = 2 | .properties.slurm.nodelist = "h[1-4]"'
    wait_until 60 has_come both 0 5
    host_dies h3
    host_dies h2
    wait_until 90 has_gone_on both 1
    ends_well both
    [[ $(places both) == "h1 h4" ]]
}

# are_there NAME START COUNT: for wait_until; so many processes of waits.sh are, at that start.
are_there() { [[ $(as_user find "$HOME_DIR/$1" -name "there-$2-*" | wc -l) -eq $3 ]]; }
# said NAME START KIND NUMBER: what such a process knew, after the name of its node.
said() { as_user cat "$HOME_DIR/$1/said-$2-$3-$4"; }

# Breaks when the container of the spare node is not the one that was prepared there, or is left behind.
@test "in containers, a spare node takes the place of one that dies" {
    local root=$BATS_TEST_TMPDIR/root
    make_root "$root"
    pack "$root" "$image"
    site ''
    submit boxed none '.properties |= (.containerSettings.imageSourceRegistry.image = "'$image'" |
        .environmentVariables += [{name: "BATCHAI_INJECT", value: "0"}] |
        .jobPreparation.commandLine = "echo prepared on $SLURMD_NODENAME > /etc/made-for" |
        .customMpiSettings.commandLine = "sh \($home)/waits.sh rank")'
    wait_until 60 are_there boxed 0 2
    host_dies h2
    # As a rank does that misses the other one.
    as_user touch "$HOME_DIR/boxed/fail-0-rank-0"
    wait_until 60 are_there boxed 1 2
    [[ $(said boxed 0 rank 1) == "h2 prepared on h2" ]]
    [[ $(said boxed 1 rank 0) == "h1 prepared on h1" && $(said boxed 1 rank 1) == "h3 prepared on h3" ]]
    as_user touch "$HOME_DIR/boxed/stop"
    run -0 batchai job wait --name boxed
    [[ $(places boxed) == "h1 h3" ]]
    wait_until_clean h1
    wait_until_clean h3
}

# Breaks when the tasks of TensorFlow look for one another on the node that is lost, or when parameter
# servers of the start before stay.
@test "TF_CONFIG names the spare node that takes the place of a lost one" {
    site ''
    submit tasks none '.properties |= (del(.customMpiSettings) | .tensorFlowSettings = {
        pythonInterpreterPath: "/bin/sh", pythonScriptFilePath: ($home + "/waits.sh"), parameterServerCount: 2,
        masterCommandLineArgs: "worker", workerCommandLineArgs: "worker", parameterServerCommandLineArgs: "ps"})'
    wait_until 60 are_there tasks 0 4
    as_root_on login scontrol update nodename=h2 state=down reason=test
    wait_until 60 are_there tasks 1 4
    local start kind number other hosts
    for start in 0 1; do
        other=$([[ $start -eq 0 ]] && echo h2 || echo h3)
        hosts=$(for host in h1 "$other"; do address_of "$host"; done | jq -Rn '[inputs]')
        for kind in worker ps; do
            for number in 0 1; do
                run -0 said tasks $start $kind $number
                echo "$output"
                [[ ${output%% *} == $([[ $number -eq 0 ]] && echo h1 || echo "$other") ]]
                jq -e --argjson hosts "$hosts" --arg kind $kind --argjson number $number '
                    .task == {type: $kind, index: $number} and
                    ([.cluster[] | map(split(":")[0])] == [$hosts, $hosts])' <<< "${output#* }"
            done
        done
    done
    # The new ones, and none of the first start.
    wait_until 90 has_tasks h1 2
    wait_until 90 has_tasks h2 0
    as_user touch "$HOME_DIR/tasks/stop"
    run -0 batchai job wait --name tasks
    [[ $(places tasks) == "h1 h3" ]]
}
address_of() { as_user getent hosts "$1" | cut -d ' ' -f 1; }
has_tasks() { [[ $(processes_of_user_on "$1" | grep -cE "^alice +[0-9]+ /bin/sh .*/waits[.]sh ") -eq $2 ]]; }

@test "a spare node takes the place of one that watch names" {
    site ''
    submit hangs pause '.properties.watch = {silence: "PT10S", action: "end"}'
    wait_until 90 has_gone_on hangs 1
    ends_well hangs
    [[ $(places hangs) == "h1 h3" ]]
    [[ $(record_of hangs '.restarts[0].failure | [.code, .node] | join(" ")') == "JobHung h2" ]]
}

# The batch script stays on the node that the ranks leave.
@test "a spare node takes the place of the first one, which fails a check of the site" {
    as_root_on login mkdir "$checks"
    as_root_on login bash -c "printf '#!/bin/sh\n[ \$SLURMD_NODENAME != h1 ] || { echo broken; exit 1; }\n' > $checks/10-disk
        chmod 755 $checks/10-disk"
    site "health = { directory = \"$checks\" }"
    submit checked none
    wait_until 60 has_come checked 0 5
    ends_well checked
    ran_on checked h2 h3
    run says checked
    [[ $output == *"the job goes on without h1, which has failed a health check"* ]]
}

@test "a node is lost during the preparation, which is repeated on the others" {
    site ''
    submit early none '.properties.jobPreparation.commandLine =
        "echo prepares; touch \($home)/early/on-$SLURMD_NODENAME; [ -e \($home)/early/second ] || sleep 120"'
    wait_until 60 is_being_prepared early
    as_user touch "$HOME_DIR/early/second"
    as_root_on login scontrol update nodename=h2 state=down reason=test
    wait_until 60 has_come early 0 5
    ends_well early
    ran_on early h1 h3
}
is_being_prepared() { as_user test -e "$HOME_DIR/$1/on-h1" -a -e "$HOME_DIR/$1/on-h2"; }

# Breaks when a job that has lost all its spare nodes has failed, although Slurm would have queued it again.
@test "a job without a spare node left is queued again" {
    site ''
    submit spent pause
    wait_until 60 has_come spent 0 5
    as_root_on login scontrol update nodename=h3 state=down reason=test
    wait_until 60 has_one_spare_less spent
    host_dies h2
    wait_until 60 is_queued_again spent
    run batchai job show --name spent --query 'attempts[0].[endedBy, retry]' --output tsv
    echo "$output"
    [[ $output == *"because a node is lost"* ]]
}
has_one_spare_less() { [[ $(as_user squeue -h -n "$1" -o %N) == 'h[1-2]' ]]; }
is_queued_again() { [[ $(as_user squeue -h -n "$1" -o %T) == PENDING ]]; }

@test "a retry starts the ranks where they are, and counts" {
    site ''
    submit again exit '.properties |= (del(.spareNodes) | .slurm.nodelist = "h[1-2]" | .retry = {on: ["75"], max: 1})'
    wait_until 60 has_gone_on again 1
    ends_well again
    [[ $(attempts again) == '[["program",0]]' && $(places again) == "h1 h2" ]]
    run says again
    echo "$output"
    [[ $output == *"the ranks start again on 2 of 2 nodes, retry 1 of 1: "* ]]
    submit often always '.properties |= (del(.spareNodes) | .slurm.nodelist = "h[1-2]" | .retry = {on: ["75"], max: 1})'
    run batchai job wait --name often
    [[ $status -ne 0 && $(attempts often) == '[["program",75]]' && $(places often) == "h1 h2" ]]
    run batchai job show --name often --query 'attempts[0].retry' --output tsv
    [[ $output == *'has been run again once, and "retry.max" is 1' ]]
}

@test "srun does not ask for spare nodes" {
    site ''
    job_file door none
    run as_user srun --job-json="$HOME_DIR/door.json" bash -c 'echo "$SLURM_NNODES $SLURM_NTASKS"'
    echo "$output"
    [[ $(grep -cx "2 2" <<< "$output") -eq 2 ]]
}
