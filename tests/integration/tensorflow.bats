#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# tensorFlowSettings with several processes on four hosts: who runs where and knows whom, and how the
# job ends. tensorflow/task.py stands in for TensorFlow where only the wiring matters.

bats_require_minimum_version 1.5.0
load lib
load small_image

share=myshare/toolkits

setup_file() {
    make_home tensorflow
    as_user mkdir -p "$HOME_DIR/$share"
    write_home site.lua << LUA
return {
  python_interpreter = "$PYTHON",
  storage_accounts = {
    mystorageaccount = { file_share_directory = "$HOME_DIR/%s" },
  },
}
LUA
    write_home "$share/task.py" < "$SOURCE/tests/integration/tensorflow/task.py"
    write_home "$share/digits_tensorflow_servers.py" \
        < "$SOURCE/examples/toolkits/digits_tensorflow_servers.py"
    write_home "$share/tensorflow_multiworker.py" \
        < "$SOURCE/examples/frameworks/tensorflow_multiworker.py"
}

teardown() {
    cancel_jobs
    wait_until 60 nodes_idle 4
}

teardown_file() {
    cancel_jobs
    wait_until 60 nothing_is_queued
    remove_home
    as_root_on login rm -f /shared/tensorflow-test.sqsh
}

batchai() { batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua" "$@"; }

# submit NAME FILE: creates the job of that file.
submit() {
    batchai job create --name "$1" --config-file "$2" --storage-account-name mystorageaccount \
        --output none
}

# submit_task NAME NODES COUNTS WORDS [VARIABLES]: a job of task.py. All tasks get the words, and the
# name of the key that they come from.
submit_task() {
    jq -n --argjson nodes "$2" --argjson counts "$3" --arg words "$4" --arg site "$HOME_DIR" \
        --argjson variables "${5:-[]}" '
        { properties: {
            nodeCount: $nodes,
            tensorFlowSettings: ({
                pythonScriptFilePath: "\($site)/myshare/toolkits/task.py",
                masterCommandLineArgs: "--as master \($words)",
                workerCommandLineArgs: "--as worker \($words)",
                parameterServerCommandLineArgs: "--as ps \($words)" } + $counts),
            stdOutErrPathPrefix: "\($site)/logs",
            environmentVariables: $variables } }' | write_home "$1.json"
    submit "$1" "$1.json"
}

chief='[{"name": "BATCHAI_TF_CONFIG", "value": "chief"}]'

# ends_well NAME: the job's last words are shown if it does not.
ends_well() {
    run batchai job wait --name "$1"
    echo "$output"
    [[ $status -eq 0 ]]
}

# files_are NAME FILE…: the job's logs, besides those of the launcher and the directory of the ranks.
files_are() {
    local files
    files=$(batchai job file list --job "$1" --query '[].name' --output tsv) || return
    diff <(printf '%s\n' ranks "${@:2}" | sort) <(grep -v '^execution' <<< "$files" | sort)
}

# task_is NAME FILE JQ_FILTER: what a task has printed into its file passes the filter.
task_is() {
    local text
    text=$(output_of "$1" "$2" | with_node_names) || return
    echo "$2: $text"
    jq -e "$3" <<< "$text" > /dev/null
}

# some_server_met COUNT: for wait_until; a parameter server of a job that runs has met so many tasks.
some_server_met() {
    as_user grep -rqs --include='stdout-ps-*.txt' "\"met\": $1," "$HOME_DIR/logs"
}

# nothing_is_left: no process of the user on any host, and no step.
nothing_is_left() {
    local host
    for host in h1 h2 h3 h4; do prints_nothing processes_of_user_on "$host" || return; done
}

# Breaks when a task has another's number or port, runs elsewhere than planned, or finds the port taken.
@test "workers beside parameter servers know each other and have their own files" {
    submit_task wired 4 '{"workerCount": 6, "parameterServerCount": 2}' ""
    ends_well wired
    files_are wired std{out,err}-wk-{0,1,2,3,4,5}.txt std{out,err}-ps-{0,1}.txt
    local i host hosts=(h1 h1 h2 h2 h3 h4)
    for i in 0 1 2 3 4 5; do
        host=${hosts[i]}
        local part=worker
        [[ $i -ne 0 ]] || part=master
        task_is wired "stdout-wk-$i.txt" ".name == \"worker-$i\" and .as == \"$part\"
            and .host == \"$host\" and .own_host and .met == 8 and .index == \"$i\" and .is_rank
            and .cluster == {worker: 6, ps: 2} and .own == .workers[$i] and (.workers | length) == 6"
    done
    for i in 0 1; do
        task_is wired "stdout-ps-$i.txt" ".name == \"ps-$i\" and .as == \"ps\" and .own_host
            and .host == \"h$((i + 1))\" and .met == 8 and .index == \"$i\" and .devices == \"-1\"
            and (.ps | split(\",\"))[$i] == .own and (.is_rank | not)"
    done
    # What is in the logs is kept there only.
    prints_nothing as_user find "$HOME_DIR/records" -name '*.std*-ps-*'
    wait_until 60 nothing_is_left
}

# Breaks when the job waits for workers that wait for the chief, or fails because they were ended.
@test "with a chief, the job ends with it and leaves nothing behind" {
    submit_task led 2 '{"workerCount": 3}' "--then worker-0=wait --then worker-1=wait" "$chief"
    ends_well led
    task_is led stdout-wk-0.txt '.name == "chief-0" and .cluster == {chief: 1, worker: 2, ps: 1}'
    task_is led stdout-wk-2.txt '.name == "worker-1" and .index == "2" and .host == "h2"'
    [[ $(batchai job show --name led --query executionState --output tsv) == succeeded ]]
    wait_until 60 nothing_is_left
}

@test "a worker that fails is to blame, and its parameter servers end" {
    submit_task worker-fails 2 '{}' "--then worker-0=wait --then worker-1=fail"
    run ! batchai job wait --name worker-fails
    run failure_of worker-fails
    echo "$output"
    jq -e '.exitCode == 7 and .code == "JobFailed" and .Node == "h2" and .Rank == "1"
        and (tostring | test("RuntimeError: worker 1 fails on purpose"))' <<< "$output"
    wait_until 60 nothing_is_left
}

# Breaks when the workers go on without their parameter server, or a worker is blamed.
@test "a parameter server that fails is to blame, not the workers that end after it" {
    submit_task server-fails 2 '{"parameterServerCount": 2}' \
        "--then worker-0=wait --then worker-1=wait --then ps-1=fail"
    run ! batchai job wait --name server-fails
    run failure_of server-fails
    echo "$output"
    jq -e '.exitCode == 7 and .code == "JobFailed" and .Node == "h2" and (has("Rank") | not)
        and (tostring | test("parameter server 1: RuntimeError: ps 1 fails on purpose"))' \
        <<< "$output"
    wait_until 60 nothing_is_left
}

@test "job terminate ends workers, parameter servers and the step that holds their ports" {
    submit_task long 4 '{}' "--then worker-0=wait --then worker-1=wait --then worker-2=wait"
    wait_until 90 some_server_met 5
    batchai job terminate --name long --yes
    run ! batchai job wait --name long
    run failure_of long
    echo "$output"
    jq -e '.code == "JobTerminated"' <<< "$output"
    wait_until 60 nothing_is_left
}

# Breaks when an interrupted `batchai run` leaves a step behind in an allocation that goes on.
@test "Ctrl-C in an allocation ends all steps" {
    submit_task unused 2 '{}' "--then worker-0=wait --then worker-1=wait"
    cancel_jobs
    # shellcheck disable=SC2016 # expanded by the shells there
    run -0 as_user bash -c '
        cd "$1" && touch began
        export BATCHAI_HOME=$1/records BATCHAI_SITE=$1/site.lua BATCHAI=$2/bin/batchai
        salloc --job-json=unused.json bash -c "
            set -m
            \$BATCHAI run & run=\$!
            until grep -qs met \$(find logs -name stdout-ps-0.txt -newer began); do
                kill -0 \$run || exit 9
                sleep 0.3
            done < /dev/null
            while kill -INT -- -\$run 2> /dev/null; do sleep 0.3; done
            wait \$run
            echo ended with \$?
            # Slurm lists a step until its nodes have told of its end, and one of its own where it contains jobs.
            for i in {1..200}; do steps=\$(squeue -h -s -j \$SLURM_JOB_ID -o %j | grep -vx extern); [ -n \"\$steps\" ] || break; sleep 0.1; done
            echo steps: \$steps"' ctrl-c "$HOME_DIR" "$PREFIX"
    echo "$output"
    [[ $output == *$'\nended with 130\nsteps:'* && $output != *steps:\ * ]]
    wait_until 60 nothing_is_left
}

# Breaks when the image's shell cannot tell a task what it is, or the master's end is not seen outside.
@test "tasks in a container know what they are, and the job ends with its chief" {
    local root=$BATS_FILE_TMPDIR/root
    make_root "$root"
    pack "$root" /shared/tensorflow-test.sqsh
    write_home "$share/task.sh" << 'SH'
case $TF_CONFIG in
*'"type":"chief"'*) cat /etc/made-for; echo "$TF_CONFIG" ;;
*) sleep 600 ;;
esac
SH
    jq -n --argjson variables "$chief" --arg site "$HOME_DIR" '
        { properties: {
            nodeCount: 2,
            tensorFlowSettings: { pythonInterpreterPath: "/bin/sh",
                                  pythonScriptFilePath: "\($site)/myshare/toolkits/task.sh" },
            containerSettings: { imageSourceRegistry: { image: "/shared/tensorflow-test.sqsh" } },
            stdOutErrPathPrefix: "\($site)/logs",
            environmentVariables: ($variables + [{ name: "BATCHAI_INJECT", value: "0" }]) } }' \
        | write_home contained.json
    submit contained contained.json
    ends_well contained
    run --separate-stderr output_of contained stdout-wk-0.txt
    echo "$output"
    [[ ${lines[0]} == "made for the test" ]]
    jq -e '.task == {type: "chief", index: 0} and (.cluster | keys) == ["chief", "ps", "worker"]' \
        <<< "${lines[1]}"
    wait_until 60 nothing_is_left
}

# The port of each task is held by another process while TensorFlow's server binds it.
@test "TensorFlow trains with MultiWorkerMirroredStrategy" {
    write_home workers.json < "$SOURCE/examples/toolkits/tensorflow-workers.json"
    submit workers workers.json
    ends_well workers
    files_are workers std{out,err}-wk-{0,1}.txt
    local rank
    for rank in 0 1; do
        run --separate-stderr output_of workers "stdout-wk-$rank.txt"
        echo "$output"
        output=$(with_node_names <<< "$output")
        [[ $output =~ ^"rank $rank of 2 on h$((rank + 1)): loss "([0-9.]+)" -> "([0-9.]+)$ ]]
        awk -v before="${BASH_REMATCH[1]}" -v after="${BASH_REMATCH[2]}" \
            'BEGIN { exit !(after < before / 2) }'
    done
}

@test "TensorFlow trains with ParameterServerStrategy" {
    write_home servers.json < "$SOURCE/examples/toolkits/tensorflow-servers.json"
    submit servers servers.json
    ends_well servers
    files_are servers std{out,err}-wk-{0,1,2}.txt std{out,err}-ps-0.txt
    run --separate-stderr output_of servers stdout-wk-0.txt
    echo "$output"
    [[ $output =~ "Test accuracy: "(0\.[89]|1\.0) ]]
}
