#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Elastic jobs whose nodes change while they run, and ranks that outlive others. Other losses of ranks and
# nodes are in examples.bats.

bats_require_minimum_version 1.5.0
load lib

setup_file() {
    make_home elastic
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
    write_home myshare/digits/digits_elastic.py < "$SOURCE/examples/digits-elastic/digits_elastic.py"
    write_home myshare/digits/count.py < "$SOURCE/tests/integration/elastic/count.py"
    write_home myshare/digits/stay.py < "$SOURCE/tests/integration/elastic/stay.py"
}

teardown_file() {
    remove_home
    as_root_on login scontrol reconfigure
    wait_until 60 nodes_idle 4
}

setup() { as_user rm -f "$HOME_DIR/stop"; }

teardown() {
    cancel_jobs
    wait_until 60 nothing_is_queued
    as_root_on login scontrol update nodename=h[1-4] state=resume 2> /dev/null || true
    local host
    for host in h3 h4; do host_lives "$host"; done
}

# batchai WORDS…: in the suite's own home and site; standard input passes through.
batchai() { batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua" "$@"; }

# submit NAME SCRIPT WORDS [FILTER]: a job on four nodes that may not fail once.
submit() {
    jq --arg python "$PYTHON" --arg script "$2" --arg words "$3" \
        '.properties.horovodSettings.pythonScriptFilePath = "$AZ_BATCHAI_JOB_MOUNT_ROOT/myshare/digits/\($script)"
         | .properties.horovodSettings.commandLineArgs = $words
         | (.properties.environmentVariables[] | select(.name == "BATCHAI_ELASTIC_RESTARTS")).value = "0"
         | del(.properties.jobPreparation) | '"${4:-.}" \
        "$SOURCE/examples/digits-elastic/job.json" | write_home "$1.json"
    batchai job create --name "$1" --config-file "$1.json" \
        --storage-account-name mystorageaccount --output none
}

output_has() { output_of "$1" 2> /dev/null | grep -q -e "$2"; }

# restarts_of NAME: the nodes and the codes of the restarts in the record of the first attempt.
restarts_of() {
    as_user bash -c "find '$HOME_DIR/records' -path '*attempts/1.json' \
        -newer '$HOME_DIR/$1.json' -exec jq -c '[.restarts[] | (.nodes | length), .failure.code]' {} +"
}

nodes_of_job() { as_user squeue -h -n "$1" -o %N; }
job_has_nodes() { [[ $(nodes_of_job "$1") == "$2" ]]; }

# Breaks when a job that is made smaller loses what it has computed, counts a failure, or keeps the
# nodes.
@test "a job gives back nodes, at its user's wish and by scontrol, and trains on without a failure" {
    submit smaller digits_elastic.py '--epochs=40 --pause=0.5 --require-accuracy=0.95'
    wait_until 90 output_has smaller '^Epoch 2/'
    run batchai job resize --name smaller --nodes 5
    [[ $status -eq 4 && $output == *"Slurm cannot give more nodes to a job that runs; the job has 4"* ]]
    run batchai job resize --name smaller --nodes 1
    [[ $status -eq 4 && $output == *"the job needs 2 nodes (BATCHAI_ELASTIC_MIN_NODES)"* ]]
    run batchai job resize --name smaller --nodes 3
    echo "$output"
    [[ $status -eq 0 && $output == *"the job keeps 3 of its 4 nodes after its next commit"* ]]
    wait_until 90 output_has smaller '^Epoch .* - 3 ranks'
    job_has_nodes smaller 'h[1-3]'
    # What the job had there is gone, although no epilog runs on this node.
    wait_until 60 nodes_are_clean h4
    as_user scontrol update jobid="$(as_user squeue -h -n smaller -o %i)" nodelist=h1,h3
    wait_until 90 output_has smaller '^Epoch .* - 2 ranks'
    run batchai job wait --name smaller
    echo "$output"
    [[ $status -eq 0 ]]
    run --separate-stderr output_of smaller
    echo "$output"
    [[ $output == *"Epoch 40/40 - 2 ranks"* && $output == *"Test accuracy: "* ]]
    # The epoch of a commit at which the ranks end has no line; only the one that scontrol has cut off
    # may have been begun twice.
    [[ $(grep -o '^Epoch [0-9]*' <<< "$output" | sort | uniq -d | wc -l) -le 1 ]]
    [[ $(restarts_of smaller) == '[3,"HostsUpdated",2,"HostsUpdated"]' ]]
    run output_of smaller execution-h1.log
    echo "$output"
    [[ $output == *"h4 leaves: the ranks start again after their next commit"* ]]
    [[ $output == *"the job has given back to Slurm: h4"* ]]
    [[ $output == *"the ranks start again on 2 of 4 nodes: Slurm has taken h2 from the job"* ]]
    run output_of smaller stderr.txt
    echo "$output"
    [[ $output == *"the hosts change; the ranks end after commit"* ]]
    run batchai job resize --name smaller --nodes 2
    [[ $status -eq 4 && $output == *"the job is not running"* ]]
}

# Breaks when a node that Slurm expects to fail is used on, or one that is back is not used again.
@test "the ranks leave a node that fails, and take it again when it is back" {
    submit back count.py "$HOME_DIR/stop"
    wait_until 60 output_has back 'count 3 on 4 ranks'
    as_root_on login scontrol update nodename=h4 state=fail reason=test
    wait_until 60 output_has back 'on 3 ranks'
    job_has_nodes back 'h[1-4]'
    as_root_on login scontrol update nodename=h4 state=resume
    wait_until 90 output_has back 'skip_sync=False'
    wait_until 60 output_has back 'reset to 4 ranks'
    as_user touch "$HOME_DIR/stop"
    run batchai job wait --name back
    echo "$output"
    [[ $status -eq 0 ]]
    run --separate-stderr output_of back
    echo "$output"
    [[ $output == *"skip_sync=True"*"reset to 3 ranks"*"skip_sync=False"*"reset to 4 ranks"* ]]
    # No number is missing and none comes twice.
    [[ $(grep -c '^count' <<< "$output") -eq $(sed -n 's/^ended at //p' <<< "$output") ]]
    prints_nothing bash -c "grep -o '^count [0-9]*' <<< '$output' | uniq -d"
    [[ $(restarts_of back) == '[3,"HostsUpdated",4,"HostsUpdated"]' ]]
}

node_is_drained() { [[ $(as_user sinfo -h -n "$1" -p main -o %T) == drained ]]; }

# Breaks when the administrator has to wait for the end of a job that has consented to leave.
@test "a job leaves a drained node only if it has consented" {
    # Which nodes Slurm would choose depends on those that are still completing the last test's job.
    submit stays count.py "$HOME_DIR/stop" '.properties.nodeCount = 2
        | .properties.slurm.nodelist = "h[1-2]"'
    submit leaves count.py "$HOME_DIR/stop" '.properties.nodeCount = 2
        | .properties.slurm.nodelist = "h[3-4]"
        | .properties.environmentVariables += [{name: "BATCHAI_ELASTIC_LEAVE_DRAINED", value: "1"}]
        | (.properties.environmentVariables[] | select(.name == "BATCHAI_ELASTIC_MIN_NODES")).value = "1"'
    wait_until 60 output_has stays 'count 3 on 2 ranks'
    wait_until 60 output_has leaves 'count 3 on 2 ranks'
    [[ $(nodes_of_job leaves) == 'h[3-4]' && $(nodes_of_job stays) == 'h[1-2]' ]]
    as_root_on login scontrol update nodename=h2,h4 state=drain reason=test
    wait_until 60 node_is_drained h4
    wait_until 60 output_has leaves 'on 1 ranks'
    job_has_nodes stays 'h[1-2]'
    as_root_on login scontrol update nodename=h2 state=resume
    as_user touch "$HOME_DIR/stop"
    for name in stays leaves; do
        run batchai job wait --name "$name"
        [[ $status -eq 0 ]]
    done
    [[ $(restarts_of leaves) == *'[1,"HostsUpdated"]'* ]]
    run output_of stays execution-h1.log
    [[ $status -eq 0 ]]
    [[ $output != *"start again"* ]]
}

task_has_printed() { batchai job logs tasks --task "$1" 2> /dev/null | grep -q -e "$2"; }
nodes_of_task() { as_user squeue -h -r -n tasks -o '%K %N' | sed -n "s/^$1 //p"; }
task_has_nodes() { [[ $(nodes_of_task "$1") == "$2" ]]; }

# Breaks when what is meant for the last task, whose job id is that of the array, reaches the others.
@test "of an array job, only the task that has a drained node gives it back" {
    submit tasks count.py "$HOME_DIR/stop" '.properties.nodeCount = 2 | .properties.slurm.array = "1-2"
        | .properties.environmentVariables += [{name: "BATCHAI_ELASTIC_LEAVE_DRAINED", value: "1"}]
        | (.properties.environmentVariables[] | select(.name == "BATCHAI_ELASTIC_MIN_NODES")).value = "1"'
    wait_until 60 task_has_printed 1 'count 3 on 2 ranks'
    wait_until 60 task_has_printed 2 'count 3 on 2 ranks'
    local of_first of_last
    of_first=$(nodes_of_task 1)
    mapfile -t of_last < <(as_user scontrol show hostnames "$(nodes_of_task 2)")
    [[ -n $of_first && ${#of_last[@]} -eq 2 ]]
    as_root_on login scontrol update nodename="${of_last[1]}" state=drain reason=test
    wait_until 60 task_has_printed 2 'on 1 ranks'
    wait_until 60 task_has_nodes 2 "${of_last[0]}"
    task_has_nodes 1 "$of_first"
    as_user touch "$HOME_DIR/stop"
    run batchai job wait --name tasks
    echo "$output"
    [[ $status -eq 0 ]]
}

# stay NAME [FILTER]: eight ranks on four nodes that outlive each other. They run until $HOME_DIR/NAME/stop is there.
stay() {
    as_user mkdir -p "$HOME_DIR/$1"
    submit "$1" stay.py "$HOME_DIR/$1" '.properties.horovodSettings.processCount = 8
        | .properties.environmentVariables += [{name: "BATCHAI_ELASTIC_KEEP_PROCESSES", value: "1"}]
        | '"${2:-.}"
    wait_until 120 counts_on "$1" 0 8
}
# lines_of NAME TASK: "TIME PROCESS RANKS NUMBER" for each number to which the task has come.
lines_of() { as_user cat "$HOME_DIR/$1/$2"; }
# counts_on NAME TASK RANKS [PROCESS]: for wait_until; the task has come to numbers with so many ranks, in another
# process than PROCESS.
counts_on() {
    lines_of "$1" "$2" 2> /dev/null |
        awk -v ranks="$3" -v other="${4:-0}" '$3 == ranks && $2 != other { found++ } END { exit found < 5 }'
}
process_of() { lines_of "$1" "$2" | awk 'END { print $2 }'; }
# is_one_process NAME TASK SECONDS: it is, has not waited for longer than that, and has come to all numbers, but for
# one that rank 0 has committed while this task heard of the loss in its place.
is_one_process() {
    lines_of "$1" "$2" | awk -v most="$3" '
        NR > 1 && $2 != process { print "process " process " and " $2; wrong = 1 }
        NR > 1 && $4 > number + 1 + ($3 != ranks) { print "from " number " to " $4; wrong = 1 }
        NR > 1 && $1 - time > longest { longest = $1 - time }
        { time = $1; process = $2; ranks = $3; number = $4 }
        END { print "the longest pause is " longest; exit wrong || longest > most || !NR }'
}
ends_well() {
    as_user touch "$HOME_DIR/$1/stop"
    batchai job wait --name "$1"
}
nothing_runs_on() { ! as_root_on "$1" pgrep -u alice -f "$2" > /dev/null; }
losses_of() {
    batchai job show --name "$1" --query executionInfo.losses --output json |
        jq -c '[.[] | [.ranks, .ranksLeft, .failure.code]]'
}

# Breaks when a rank that dies ends the others, when they wait for long or go on elsewhere than at their last
# commit, or when the job fails in the end because of those that died.
@test "ranks go on in their processes when others die" {
    stay killed
    as_root_on h3 pkill -KILL -u alice -f stay.py
    wait_until 90 counts_on killed 0 6
    as_root_on h2 kill -KILL "$(process_of killed 3)"
    wait_until 90 counts_on killed 0 5
    # The launcher's rank 0, and an exception.
    as_user touch "$HOME_DIR/killed/raise.0"
    wait_until 90 counts_on killed 1 4
    ends_well killed
    local task
    for task in 1 2 6 7; do is_one_process killed $task 3; done
    [[ $(losses_of killed) == '[[[4,5],6,"JobFailed"],[[3],5,"JobFailed"],[[0],4,"JobFailed"]]' ]]
    [[ $(restarts_of killed) == '[]' ]]
    run batchai job events --name killed
    echo "$output"
    [[ $output == *"6 ranks go on without ranks 4, 5: "*" on rank "[45]", by signal 9"* ]]
    [[ $output == *"5 ranks go on without rank 3: "*", with exit code 137\""* ]]
    [[ $output == *"4 ranks go on without rank 0: "*"ValueError: this rank alone goes wrong"* ]]
    run batchai job logs killed
    echo "$output"
    [[ $output == *"task 7 ended at "* && $output == *"5 ranks go on without rank 3 from commit"* ]]
}

# Breaks when too few nodes go on, or all ranks do not start again then.
@test "ranks do not go on with fewer nodes than the job needs" {
    stay few '(.properties.environmentVariables[] | select(.name == "BATCHAI_ELASTIC_MIN_NODES")).value = "4"
        | (.properties.environmentVariables[] | select(.name == "BATCHAI_ELASTIC_RESTARTS")).value = "1"'
    local before
    before=$(process_of few 0)
    as_root_on h3 pkill -KILL -u alice -f stay.py
    wait_until 60 counts_on few 0 8 "$before"
    ends_well few
    [[ $(restarts_of few) == '[4,"JobFailed"]' ]]
    run output_of few execution-h1.log
    echo "$output"
    [[ $output == *"do not go on in their processes: only 3 nodes are left, but 4 are needed"* ]]
}

# Breaks when ranks that all fail alike wait for each other, or hide why.
@test "a program that fails on all ranks fails although they would outlive each other" {
    submit wrong count.py "" '.properties.environmentVariables += [{name: "BATCHAI_ELASTIC_KEEP_PROCESSES", value: "1"}]'
    run batchai job wait --name wrong
    echo "$output"
    [[ $status -ne 0 ]]
    run batchai job show --name wrong --query executionInfo --output json
    echo "$output"
    [[ $(jq .exitCode <<< "$output") == 1 && $output == *IndexError* ]]
}

# Breaks when the job does without a node for ever on which only processes have died.
@test "all ranks start again after a commit once the node of those that died is usable" {
    stay back2
    local before
    before=$(process_of back2 0)
    as_root_on h3 pkill -KILL -u alice -f stay.py
    wait_until 90 counts_on back2 0 6
    wait_until 90 counts_on back2 0 8 "$before"
    ends_well back2
    [[ $(restarts_of back2) == '[4,"HostsUpdated"]' ]]
    # Nothing was computed twice but for what came after the commit before the loss.
    lines_of back2 0 | awk 'NR > 1 && $4 < number - 4 { exit 1 } { number = $4 }'
}

# Breaks when the ranks that are left wait for Slurm to notice that a host is dead, or srun does so in the end.
@test "ranks go on in their processes when a host dies or loses its power" {
    stay dies
    host_dies h3
    wait_until 90 counts_on dies 0 6
    ends_well dies
    local task
    for task in 0 1 2 3 6 7; do is_one_process dies $task 30; done
    [[ $(losses_of dies) == '[[[4,5],6,"NodeFailed"]]' && $(restarts_of dies) == '[]' ]]
    host_lives h3
    wait_until 60 nodes_idle 4
    stay power
    # So long that all nodes have answered pings.
    wait_until 90 counts_on power 0 8
    host_loses_power h4
    wait_until 90 counts_on power 0 6
    ends_well power
    for task in 0 1 2 3 4 5; do is_one_process power $task 30; done
    [[ $(losses_of power) == '[[[6,7],6,"NodeFailed"]]' && $(restarts_of power) == '[]' ]]
}

# Breaks when the next start waits for what Slurm still counts as running on a host that has forgotten it.
@test "all ranks start again when a dead host is back before Slurm gives it up" {
    stay returns '(.properties.environmentVariables[] | select(.name == "BATCHAI_ELASTIC_RESTARTS")).value = "1"'
    local before
    before=$(process_of returns 0)
    host_loses_power h4
    wait_until 90 counts_on returns 0 6
    # srun finds the connection to the host broken, and ends the step.
    host_lives h4
    wait_until 60 counts_on returns 0 6 "$before"
    ends_well returns
    [[ $(losses_of returns) == '[[[6,7],6,"NodeFailed"]]' && $(restarts_of returns) == '[3,"NodeFailed"]' ]]
}

# Breaks when both parts of a torn network go on, or the one that does ends because of the other.
@test "ranks of a host without network are left out, also when it is back" {
    stay torn
    as_root_on h4 ip link set eth0 down
    wait_until 90 counts_on torn 0 6
    as_root_on h4 ip link set eth0 up
    wait_until 60 nothing_runs_on h4 stay.py
    counts_on torn 0 6
    ends_well torn
    local task
    for task in 0 1 2 3 4 5; do is_one_process torn $task 30; done
    [[ $(losses_of torn) == '[[[6,7],6,"NodeFailed"]]' && $(restarts_of torn) == '[]' ]]
    lines_of torn 6 | awk '$3 != 8 { exit 1 }'
}
