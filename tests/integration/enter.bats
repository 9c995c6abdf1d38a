#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# batchai job node list and exec: commands and shells in the sandbox of a job that runs, as an
# ordinary user. One job in a container on two hosts and one on the bare hosts serve all tests; they
# run until their file "end" is there.

bats_require_minimum_version 1.5.0
load lib
load small_image

setup_file() {
    make_home enter
    make_root "$BATS_FILE_TMPDIR/root"
    pack "$BATS_FILE_TMPDIR/root" "/shared/enter-$$.sqsh"
    write_job inside 2 '"containerSettings": {"imageSourceRegistry": {"image": "/shared/enter-'$$'.sqsh"}},
        "jobPreparation": {"commandLine": "touch /usr/prepared"},'
    write_job bare 1
    create inside
    create bare
    wait_until 60 wrote inside
    wait_until 60 wrote bare
}

teardown_file() {
    cancel_jobs
    wait_until 60 nothing_is_queued
    as_root_on login rm -rf "$HOME_DIR" "/shared/enter-$$.sqsh"
}

# batchai WORDS…: with the suite's own records; standard input passes through.
batchai() { batchai_with COLOUR=red "$@"; }

node_exec() { batchai job node exec --job "$@"; }

# write_job NAME NODES [MORE]: notes where it runs in NAME.seen.
write_job() {
    write_home "$1.json" << JSON
{
  "properties": {
    "nodeCount": $2,
    "stdOutErrPathPrefix": "$HOME_DIR/logs",
    "mountVolumes": {"azureFileShares": [{
        "azureFileUrl": "https://site.file.core.windows.net/share", "relativeMountPath": "share"}]},
    "environmentVariables": [{"name": "COLOUR", "value": "blue"}],
    "secrets": [{"name": "PASSWORD", "value": "geheim"}],
    ${3:-}
    "customToolkitSettings": {"commandLine":
      "(readlink /proc/self/ns/mnt; echo \$AZ_BATCH_MASTER_NODE; echo \$AZ_BATCH_NODE_ID) > $HOME_DIR/$1.seen; until [ -e $HOME_DIR/end-$1 ]; do sleep 0.2; done"}
  }
}
JSON
}

# What the job's own process saw: its mount namespace, master and node.
seen() { as_user cat "$HOME_DIR/$1.seen"; }
wrote() { [[ $(seen "$1" 2> /dev/null | wc -l) -eq 3 ]]; }
node_of() { seen "$1" | tail -n 1; }
nodes_of() { batchai job node list --job "$1" --query '[].nodeId' -o tsv; }

# Breaks when the command runs elsewhere than the job's processes, as somebody else, or without the
# job's variables.
@test "a command runs in the job's container, as the user, with what the job's processes have" {
    run node_exec inside --exec 'cat /etc/made-for; id -u; readlink /proc/self/ns/mnt
        echo $AZ_BATCH_MASTER_NODE; echo $AZ_BATCH_NODE_ID; echo $COLOUR $PASSWORD [$RANK]
        ls -d $AZ_BATCHAI_JOB_MOUNT_ROOT/share /usr/prepared'
    echo "$output"
    [[ $status -eq 0 ]]
    [[ $output == "made for the test"$'\n'20001$'\n'"$(seen inside)"$'\n'"blue geheim []"* ]]
    [[ $output == */share* && $output == */usr/prepared* ]]
}

# Breaks when the mount namespace of a job without a container is not joined.
@test "a command joins a job on the bare nodes" {
    run node_exec bare --exec 'readlink /proc/self/ns/mnt
        echo $AZ_BATCH_MASTER_NODE; echo $AZ_BATCH_NODE_ID; echo $COLOUR $PASSWORD
        ls -d $AZ_BATCHAI_JOB_MOUNT_ROOT/share; pwd'
    echo "$output"
    [[ $status -eq 0 && $output == *"blue geheim"*/share*"$HOME_DIR" ]]
    # Without a container each step has a mount namespace of its own, which is not the node's.
    [[ $(sed -n 2,3p <<< "$output") == "$(seen bare | sed -n 2,3p)" ]]
    local of_node of_job
    of_node=$(as_user_on "$(node_of bare)" readlink /proc/self/ns/mnt)
    of_job=$(node_exec bare --exec 'readlink /proc/self/ns/mnt')
    [[ $of_node == mnt:* && $of_job == mnt:* && $of_node != "$of_job" ]]
}

# Breaks when variables that the job's processes have are missing without a word.
@test "a command says when it lacks the variables of the job's nodes" {
    local file
    file=$(as_user find "$HOME_DIR/records" -path '*/bare/step-variables')
    as_user mv "$file" "$file.away"
    run node_exec bare --exec 'echo [$AZ_BATCH_HOST_LIST] $COLOUR'
    as_user mv "$file.away" "$file"
    echo "$output"
    [[ $status -eq 0 && $output == *"warning: AZ_BATCH_HOST_LIST"*"$file"*"[] blue"* ]]
}

# Breaks when the node cannot be chosen, or one that is not the job's is taken.
@test "the node can be chosen among the job's" {
    local nodes first second
    nodes=$(nodes_of inside)
    lines_are 2 "$nodes"
    { read -r first && read -r second; } <<< "$nodes"
    [[ $first == "$(node_of inside)" ]]
    # No process of the job is there but what this brings; what preparation made is.
    run node_exec inside --node-id "$second" --exec 'echo $AZ_BATCH_NODE_ID; ls /usr/prepared'
    echo "$output"
    [[ $status -eq 0 && $output == "$second"$'\n'/usr/prepared ]]
    run node_exec inside -n h99 --exec true
    echo "$output"
    [[ $status -eq 5 && $output == *"id=h99"*"$first, $second"* ]]
    run batchai job node list --job inside --output table
    echo "$output"
    [[ $output == ID*IP*"$first"*"$second"* ]]
}

# Breaks when the exit code, standard input or one of the outputs is not the command's.
@test "exit code, input and outputs are the command's" {
    run --separate-stderr node_exec inside --exec 'read word; echo "got $word"; echo aside >&2; exit 7' <<< hello
    # shellcheck disable=SC2154 # set by run
    echo "$output / $stderr"
    [[ $status -eq 7 && $output == "got hello" && $stderr == *aside* ]]
}

# Breaks when Ctrl-C ends srun, or shows the state of the step, instead of reaching the command.
@test "Ctrl-C goes to the command" {
    run as_user bash -c '
        cd "$1"
        # Programs that a script starts in the background ignore Ctrl-C.
        BATCHAI_HOME=$1/records env --default-signal=INT "$2" job node exec --job inside \
            --exec "trap \"echo interrupted; kill \\\$!; exit 9\" INT; echo ready; sleep 60 & wait" > out 2>&1 < /dev/null &
        for ((i = 0; i < 1200; i++)); do grep -qs ready out && break; sleep 0.1; done
        kill -INT $!
        wait $!
        echo "code $?"
        cat out' ctrl-c "$HOME_DIR" "$PREFIX/bin/batchai"
    echo "$output"
    [[ $output == "code 9"*interrupted* && $output != *"one more within"* ]]
}

# Breaks when the shell has no terminal, or is one that reads /etc/profile.
@test "without a command there is a shell with a terminal" {
    run as_user bash -c '
        cd "$1"
        export BATCHAI_HOME=$1/records
        printf "%s\n" "busybox tty" "cat /etc/made-for" "echo colour=\$COLOUR" "exit 4" |
            timeout 150 script -qec "$2 job node exec --job inside" /dev/null
        echo "code $?"' shell "$HOME_DIR" "$PREFIX/bin/batchai"
    echo "$output"
    [[ $output == */dev/pts/* && $output == *"made for the test"* && $output == *colour=blue* ]]
    [[ $output == *"code 4"* ]]
    run as_user bash -c 'BATCHAI_HOME=$1/records script -qec \
        "$2 job node exec --job inside --pty --exec \"busybox tty\"" /dev/null' tty "$HOME_DIR" "$PREFIX/bin/batchai"
    echo "$output"
    [[ $output == */dev/pts/* ]]
    run node_exec inside --pty --exec true < /dev/null
    [[ $status -eq 2 && $output == *"not a terminal"* ]]
}

# Breaks when a step that joins a container does not bring the directory from which it was started.
@test "the directory from which it is called is there" {
    local directory=/shared/enter-there-$$
    as_user mkdir -p "$directory"
    run as_user env "BATCHAI_HOME=$HOME_DIR/records" bash -c "cd $directory; touch here
        $PREFIX/bin/batchai job node exec --job inside --exec 'pwd; ls; touch from-inside'; ls"
    echo "$output"
    [[ $output == "$directory"$'\n'here$'\n'from-inside$'\n'here ]]
    as_user rm -r "$directory"
}

# Breaks when a job that has no processes is entered, or why not is not said.
@test "a job that does not run says so" {
    as_user bash -c "cd '$HOME_DIR' && sed 's/end-bare/end-waits/; s/\"nodeCount\": 1/\"nodeCount\": 4/' bare.json > waits.json"
    create waits
    run node_exec waits --exec true
    echo "$output"
    [[ $status -eq 1 && $output == *waits*"not running"*queued*PENDING* ]]
    run batchai job node list --job waits
    [[ $status -eq 0 && $output == "[]" ]]
    batchai job terminate --name waits --yes
    run node_exec waits --exec true
    echo "$output"
    [[ $status -eq 1 && $output == *"not running"*failed* ]]
    run node_exec nowhere --exec true
    [[ $status -eq 5 ]]
}

# Breaks when a command that does not get in makes the job fail: the last test waits for that job.
@test "a command that cannot have the job's volumes fails alone" {
    local storage
    storage=$(as_user find "$HOME_DIR/records/storage" -type d -name share)
    as_user mv "$storage" "$storage.away"
    as_user touch "$storage"
    run node_exec bare --exec 'echo ran'
    as_user rm "$storage"
    as_user mv "$storage.away" "$storage"
    echo "$output"
    [[ $status -ne 0 && $output == *"batchai: node $(node_of bare)"*share* && $output != *$'\nran'* ]]
}

# Breaks when what was entered is disturbed by it, or something of it stays.
@test "the jobs end as if nobody had looked, and nothing is left" {
    state_is inside running
    state_is bare running
    local nodes node
    nodes="$(nodes_of inside) $(nodes_of bare)"
    as_user touch "$HOME_DIR/end-inside" "$HOME_DIR/end-bare"
    batchai job wait --name inside
    batchai job wait --name bare
    wait_until 60 nothing_is_queued
    for node in $nodes; do
        wait_until_clean "$node"
    done
    wait_until 60 nodes_idle 4
}
