#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# batchai job shell, port and cp, as an ordinary user. One job in a container on one host, and one of
# three ranks on two bare hosts, serve all tests; they run until their file "end" is there.

bats_require_minimum_version 1.5.0
load lib
load small_image

setup_file() {
    make_home reach
    make_root "$BATS_FILE_TMPDIR/root"
    ln -s ../usr/bin/busybox "$BATS_FILE_TMPDIR/root/bin/tar"
    ln -s ../usr/bin/busybox "$BATS_FILE_TMPDIR/root/bin/mv"
    pack "$BATS_FILE_TMPDIR/root" "/shared/reach-$$.sqsh"
    write_home inside.json << JSON
{"properties": {"nodeCount": 1, "stdOutErrPathPrefix": "$HOME_DIR/logs",
  "containerSettings": {"imageSourceRegistry": {"image": "/shared/reach-$$.sqsh"}},
  "customToolkitSettings": {"commandLine": "mkdir -p \$AZ_BATCHAI_JOB_TEMP/out/deep; echo one > \$AZ_BATCHAI_JOB_TEMP/out/1; echo two > \$AZ_BATCHAI_JOB_TEMP/out/deep/2; echo kept > /var/kept; touch $HOME_DIR/ready; until [ -e $HOME_DIR/end-inside ]; do sleep 0.2; done"}}}
JSON
    write_home ranks.json << JSON
{"properties": {"nodeCount": 2, "stdOutErrPathPrefix": "$HOME_DIR/logs",
  "outputDirectories": [{"id": "MODEL", "pathPrefix": "$HOME_DIR/outputs"}],
  "customMpiSettings": {"processCount": 3, "commandLine": "env > $HOME_DIR/rank-\$RANK.env; [ \$RANK = 0 ] && echo weights > \$AZ_BATCHAI_OUTPUT_MODEL/model; until [ -e $HOME_DIR/end-ranks ]; do sleep 0.2; done"}}}
JSON
    local program
    for program in serve exchange terminal; do
        write_home "$program.py" < "$SOURCE/tests/integration/reach/$program.py"
    done
    create inside
    create ranks
    wait_until 60 as_user test -e "$HOME_DIR/ready"
    wait_until 60 as_user bash -c "[[ \$(ls $HOME_DIR/rank-*.env | wc -l) -eq 3 ]]"
}

teardown_file() {
    cancel_jobs
    wait_until 60 nothing_is_queued
    as_root_on login rm -rf "$HOME_DIR" "/shared/reach-$$.sqsh"
}

nodes_of() { batchai job node list --job "$1" --query '[].nodeId' -o tsv; }
variable_of_rank() { as_user sed -n "s/^$2=//p" "$HOME_DIR/rank-$1.env"; }

# in_background NAME WORDS…: batchai with its outputs in NAME.out and NAME.err, and its process in NAME.pid.
in_background() {
    as_user bash -c 'cd "$1" && export BATCHAI_HOME=$1/records
        env --default-signal=INT "$2" "${@:4}" < /dev/null > "$3.out" 2> "$3.err" 3>&- 4>&- &
        echo $! > "$3.pid"' background "$HOME_DIR" "$PREFIX/bin/batchai" "$@"
}
process() { as_user cat "$HOME_DIR/$1.pid"; }
is_over() { ! as_user kill -0 "$(process "$1")" 2> /dev/null; }
# says FILE TEXT: for wait_until.
says() { as_user grep -qF -e "$2" "$HOME_DIR/$1"; }
# port_of NAME: the port of login that leads to the node.
port_of() { as_user sed -n 's/^127.0.0.1:\([0-9]*\) -> .*/\1/p' "$HOME_DIR/$1.out"; }
# at_terminal WORDS…: batchai at a terminal of 33 lines and 77 columns, with a script for terminal.py.
at_terminal() {
    as_user env -C "$HOME_DIR" "BATCHAI_HOME=$HOME_DIR/records" python3 "$HOME_DIR/terminal.py" 33 77 "$PREFIX/bin/batchai" "$@"
}
steps_of_commands() { lines_like 'batchai-(port|cp|exec)' as_user squeue -s -h -o %j; }

# Breaks when a rank's node, or one of the variables by which frameworks know a rank, is another's.
@test "a shell for a rank has the rank's node and variables" {
    local rank name
    for rank in 0 2; do
        run --separate-stderr batchai job shell ranks --rank "$rank" -- env
        [[ $status -eq 0 ]]
        for name in RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE MASTER_ADDR \
            MASTER_PORT AZ_BATCHAI_TASK_INDEX AZ_BATCHAI_PYTORCH_INIT_METHOD AZ_BATCH_NODE_ID \
            AZ_BATCHAI_OUTPUT_MODEL AZ_BATCH_HOST_LIST JAX_COORDINATOR_ADDRESS; do
            echo "$rank $name"
            [[ -n $(variable_of_rank "$rank" "$name") ]]
            grep -xF "$name=$(variable_of_rank "$rank" "$name")" <<< "$output"
        done
    done
    # No word of how the command told the node.
    [[ $output != *BATCHAI_AS_RANK* ]]
    run --separate-stderr batchai job shell ranks -- env
    [[ $status -eq 0 && $output != *$'\nRANK='* ]]
    # shellcheck disable=SC2154 # set by run
    [[ $stderr == *"on $(variable_of_rank 0 AZ_BATCH_NODE_ID), one of the job's nodes"*--rank* ]]
}

# Breaks when the words go through a shell, or the exit code is lost.
@test "a command's words and exit code are its own" {
    run --separate-stderr batchai job shell inside -- printf '[%s]' 'a b' '$HOME' ''
    echo "$output"
    [[ $status -eq 0 && $output == '[a b][$HOME][]' ]]
    run batchai job shell --job inside -- sh -c 'cat /etc/made-for; exit 7'
    [[ $status -eq 7 && $output == *"made for the test"* ]]
}

# Breaks when the shell has no terminal, one of another size, or Ctrl-C ends it.
@test "a shell has a terminal of the user's size, and Ctrl-C goes to its program" {
    # What is sent is echoed, so what is waited for is written otherwise there.
    run at_terminal job shell ranks --rank 2 << 'SCRIPT'
send PS1=re''ady:\r
wait ready:
send stty size\r
wait ready:
resize 44 99
send until stty size | grep 44; do sleep 0.1; done\r
wait ready:
send sh -c 'echo wait""ing; exec sleep 1000'\r
wait waiting
send \x03
wait ready:
send echo after=$?\r
wait after=130
wait ready:
send exit 5\r
SCRIPT
    echo "$output"
    [[ $status -eq 5 && $output == *"33 77"*"44 99"* ]]
}

# Breaks when a shell goes on after its terminal is gone, as that of `ssh -t HOST batchai job shell` when the
# network is lost: only the first process of the session is told.
@test "a shell ends with its terminal" {
    run at_terminal job shell ranks --rank 2 << 'SCRIPT'
send PS1=re''ady:\r
wait ready:
send echo wait""ing; sleep 1000\r
wait waiting
close
SCRIPT
    echo "$output"
    [[ $status -ne 0 && $status -ne 98 && $status -ne 99 ]]
    wait_until 60 prints_nothing steps_of_commands
}

# Breaks when one of these is not one clear message.
@test "what cannot be entered is said" {
    local nodes
    nodes=$(nodes_of ranks | paste -sd' ' | sed 's/ /, /')
    run batchai job shell ranks --node h9 -- true
    [[ $status -eq 5 && $output == *"id=h9"*"$nodes"* ]]
    run batchai job shell ranks --rank 3 -- true
    [[ $status -eq 5 && $output == *"no rank 3"*"ranks 0 to 2"* ]]
    run batchai job shell ranks --rank 0 --node h1
    [[ $status -eq 2 ]]
    run batchai job shell
    [[ $status -eq 2 && $output == *"name one job"* ]]
    run batchai job port ranks
    [[ $status -eq 2 && $output == *"name a port"* ]]
    run batchai job port ranks 70000
    [[ $status -eq 2 && $output == *'"70000" is not a port'* ]]
    run batchai job port nowhere 6006
    [[ $status -eq 5 ]]
    run batchai job cp a b
    [[ $status -eq 2 && $output == *JOB:PATH* ]]
    run batchai job cp 'inside:$HOME/x' .
    [[ $status -eq 2 && $output == *"not a variable of Batch AI"* ]]
}

# Breaks when a byte is lost, a connection waits for another, a half-closed one is cut off, or the
# command does not wait for a server that comes later.
@test "a port of a node is a port of this host" {
    in_background port job port ranks 0:7006 --rank 2
    wait_until 60 says port.err "nothing listens on 7006 on $(variable_of_rank 2 AZ_BATCH_NODE_ID) yet"
    in_background server job shell ranks --rank 2 -- python3 "$HOME_DIR/serve.py" 7006
    wait_until 60 says port.err "can be used"
    run as_user python3 "$HOME_DIR/exchange.py" "$(port_of port)" "${REACH_MEBIBYTES:-10}" 4
    echo "$output"
    [[ $status -eq 0 ]]
    [[ -z ${REACH_MEBIBYTES:-} ]] || echo "# $output" >&3
    as_user kill -INT "$(process port)"
    wait_until 60 is_over port
    as_user cat "$HOME_DIR/port.err"
    wait_until 60 prints_nothing lines_like batchai-port as_user squeue -s -h -o %j
    as_user kill -TERM "$(process server)"
    wait_until 60 is_over server
    wait_until 60 prints_nothing steps_of_commands
}

# Breaks when Batch AI's form is not understood, or leads to other hosts.
@test "job node exec -L forwards a port as az batchai does" {
    in_background server job shell ranks --rank 0 -- python3 "$HOME_DIR/serve.py" 7007
    in_background tunnel job node exec --job ranks -L 17007:localhost:7007
    wait_until 60 says tunnel.err "can be used"
    run as_user python3 "$HOME_DIR/exchange.py" 17007 1 2
    echo "$output"
    [[ $status -eq 0 ]]
    # A second one finds the port taken, and says so.
    run batchai job node exec --job ranks -L 17007:localhost:7007
    [[ $status -eq 1 && $output == *"cannot listen on port 17007"* ]]
    run batchai job node exec --job ranks -L 17008:example.org:80
    [[ $status -eq 2 && $output == *"example.org"*localhost* ]]
    as_user kill -TERM "$(process tunnel)" "$(process server)"
    wait_until 60 is_over tunnel
    wait_until 60 is_over server
}

# Breaks when the paths are not those that the job sees, or a copy differs.
@test "files are copied from a node, as the job sees it" {
    as_user mkdir -p "$HOME_DIR/copies"
    batchai job cp 'inside:$AZ_BATCHAI_JOB_TEMP/out/1' copies
    [[ $(as_user cat "$HOME_DIR/copies/1") == one ]]
    batchai job cp inside:/var/kept copies/renamed
    [[ $(as_user cat "$HOME_DIR/copies/renamed") == kept ]]
    run batchai job cp 'inside:${AZ_BATCHAI_JOB_TEMP}/out' copies
    echo "$output"
    [[ $status -eq 2 && $output == *"is a directory"*--recursive* ]]
    batchai job cp -r 'inside:${AZ_BATCHAI_JOB_TEMP}/out/' copies
    [[ $(as_user cat "$HOME_DIR/copies/out/1" "$HOME_DIR/copies/out/deep/2") == $'one\ntwo' ]]
    run batchai job cp inside:/proc/self/status copies
    [ "$status" -ne 0 ]
    [[ "$output" == *"has no length"*"job node exec"* ]]
    [ ! -e copies/status ]
    run batchai job cp inside:/nowhere copies
    echo "$output"
    [[ $status -eq 5 && $output == *"/nowhere on h"*"no such file"* ]]
    # Only the node knows the name.
    batchai job shell ranks --rank 2 -- sh -c 'echo "$AZ_BATCH_NODE_ID" > /tmp/of-$AZ_BATCH_NODE_ID'
    batchai job cp 'ranks:/tmp/of-$AZ_BATCH_NODE_ID' copies --rank 2
    [[ $(as_user cat "$HOME_DIR/copies/of-$(variable_of_rank 2 AZ_BATCH_NODE_ID)") == "$(variable_of_rank 2 AZ_BATCH_NODE_ID)" ]]
    batchai job shell ranks --rank 2 -- sh -c 'rm /tmp/of-$AZ_BATCH_NODE_ID'
    # A node without a container, and with another tar.
    as_user bash -c "head -c 5000000 /dev/urandom > $HOME_DIR/random"
    batchai job cp random 'ranks:$AZ_BATCHAI_JOB_TEMP' --rank 2
    batchai job cp 'ranks:$AZ_BATCHAI_JOB_TEMP/random' copies/random --rank 2
    as_user cmp "$HOME_DIR/random" "$HOME_DIR/copies/random"
    prints_nothing as_user find "$HOME_DIR/copies" -name '.batchai*'
}

# Breaks when what arrives differs, or a name that is there is handled otherwise than cp does.
@test "files are copied to a node, and come back the same" {
    as_user bash -c "mkdir -p $HOME_DIR/tree/inner && head -c 3000000 /dev/urandom > $HOME_DIR/tree/big &&
        echo small > '$HOME_DIR/tree/inner/with blank' && ln -s ../big $HOME_DIR/tree/inner/link && mkdir $HOME_DIR/tree/empty"
    batchai job cp tree/big 'inside:$AZ_BATCHAI_JOB_TEMP/big'
    # It is as old as the copy.
    batchai job shell inside -- sh -c 'test "$AZ_BATCHAI_JOB_TEMP/big" -nt /etc/passwd'
    batchai job cp tree/big 'inside:$AZ_BATCHAI_JOB_TEMP/out'
    batchai job cp 'inside:$AZ_BATCHAI_JOB_TEMP/out/big' back
    as_user cmp "$HOME_DIR/tree/big" "$HOME_DIR/back"
    batchai job cp -r tree 'inside:$AZ_BATCHAI_JOB_TEMP/tree'
    batchai job cp -r tree 'inside:$AZ_BATCHAI_JOB_TEMP/out'
    batchai job cp -r tree 'inside:$AZ_BATCHAI_JOB_TEMP/out'
    batchai job cp -r 'inside:$AZ_BATCHAI_JOB_TEMP/out/tree' again
    as_user diff -r "$HOME_DIR/tree" "$HOME_DIR/again"
    run batchai job cp tree 'inside:/var/tree'
    [[ $status -eq 2 && $output == *"is a directory"* ]]
    run batchai job cp nothing 'inside:/var/tree'
    [[ $status -eq 5 ]]
    run batchai job cp tree/big inside:/nowhere/deep/x
    echo "$output"
    [[ $status -eq 5 && $output == *"no such file"* ]]
    run batchai job cp tree/big inside:/proc/x
    [[ $status -eq 1 && $output == *"the copy failed"* ]]
    run batchai job cp -r tree 'inside:$AZ_BATCHAI_JOB_TEMP/big'
    [[ $status -eq 1 && $output == *"of another kind"* ]]
    run batchai job shell inside -- sh -c 'ls -A $AZ_BATCHAI_JOB_TEMP /var | grep batchai-cp'
    [[ $status -eq 1 ]]
}

# Breaks when Ctrl-C leaves a half-made file, a step or a process.
@test "Ctrl-C ends a copy and leaves nothing" {
    as_user mkdir -p "$HOME_DIR/interrupted"
    batchai job shell ranks --rank 0 -- truncate -s 4G "/tmp/zeros-$$"
    in_background copy job cp "ranks:/tmp/zeros-$$" interrupted --rank 0
    wait_until 60 as_user bash -c "[[ -n \$(find $HOME_DIR/interrupted -size +1M) ]]"
    as_user kill -INT "$(process copy)"
    wait_until 60 is_over copy
    prints_nothing as_user find "$HOME_DIR/interrupted" -mindepth 1
    as_user_on "$(variable_of_rank 0 AZ_BATCH_NODE_ID)" rm -f "/tmp/zeros-$$"
    wait_until 60 prints_nothing steps_of_commands
}

# Breaks when a directory that is not complete gets its name, or when Ctrl-C waits for a node that
# does not answer.
@test "a copy to a node that is cut off leaves nothing, and one that hangs can be ended" {
    # The stream of empty files is headers alone, so it is cut off between two of them.
    as_user bash -c "mkdir /tmp/many-$$ && cd /tmp/many-$$ && seq 1 150000 | xargs touch"
    local signal
    for signal in KILL INT; do
        in_background many job cp -r "/tmp/many-$$" 'ranks:$AZ_BATCHAI_JOB_TEMP/many' --rank 0
        wait_until 60 batchai job shell ranks --rank 0 -- \
            sh -c 'cd $AZ_BATCHAI_JOB_TEMP/.batchai-cp-*/.batchai-cp-it && ls -U | grep -q 1'
        as_user kill -"$signal" "$(process many)"
        wait_until 60 is_over many
        wait_until 60 prints_nothing steps_of_commands
        run batchai job shell ranks --rank 0 -- sh -c 'ls -A $AZ_BATCHAI_JOB_TEMP'
        echo "$signal: $output"
        [[ $status -eq 0 && $output != *many* ]]
        # Slurm kills the step of a command that is killed before it has cleaned up.
        [[ $signal == KILL || $output != *batchai-cp* ]]
        batchai job shell ranks --rank 0 -- sh -c 'rm -rf $AZ_BATCHAI_JOB_TEMP/.batchai-cp-*'
    done
    as_user rm -r "/tmp/many-$$"
    as_user mkdir "$HOME_DIR/hanging"
    write_home hanging/tar <<< $'#!/bin/sh\ntouch "$HANGS"; exec sleep 600'
    as_user chmod +x "$HOME_DIR/hanging/tar"
    as_user bash -c "echo small > $HOME_DIR/small"
    as_user bash -c 'cd "$1" && export BATCHAI_HOME=$1/records HANGS=$1/hangs PATH=$1/hanging:$PATH
        env --default-signal=INT "$2" job cp small "$3" --rank 0 < /dev/null > hangs.out 2> hangs.err 3>&- 4>&- &
        echo $! > hangs.pid' background "$HOME_DIR" "$PREFIX/bin/batchai" 'ranks:$AZ_BATCHAI_JOB_TEMP/small'
    wait_until 60 as_user test -e "$HOME_DIR/hangs"
    as_user kill -INT "$(process hangs)"
    wait_until 60 is_over hangs
    wait_until 60 prints_nothing steps_of_commands
}

# Breaks when a shell outlives its job, or ends without a word.
@test "a shell and a port end with the job, and say so" {
    in_background port job port ranks 0:7006
    wait_until 60 says port.err "nothing listens"
    run at_terminal job shell ranks --rank 1 << SCRIPT
send PS1=re''ady:\\r
wait ready:
touch $HOME_DIR/end-ranks
wait no longer runs
SCRIPT
    echo "$output"
    [[ $status -ne 0 && $status -ne 98 && $status -ne 99 && $output == *'the job "ranks" no longer runs'*succeeded* ]]
    wait_until 60 says port.err "no longer running"
    wait_until 60 is_over port
    batchai job wait --name ranks
}

# Breaks when it is not said where the files of a job that has ended are.
@test "after the job it is said where its files are" {
    run batchai job cp 'ranks:$AZ_BATCHAI_OUTPUT_MODEL/model' .
    echo "$output"
    [[ $status -eq 5 && $output == *"has ended"*"its path here is '$HOME_DIR/outputs/"*/model* ]]
    run batchai job cp 'ranks:$AZ_BATCHAI_JOB_TEMP/x' .
    echo "$output"
    [[ $status -eq 5 && $output == *"has ended"*"removed with the job"* ]]
    run batchai job shell ranks
    [[ $status -eq 1 && $output == *"not running"*succeeded* ]]
    run batchai job port ranks 6006
    [[ $status -eq 1 && $output == *"not running"*succeeded* ]]
}

# Breaks when the job is disturbed, or something of a command stays on a node.
@test "the jobs end as if nobody had looked, and nothing is left" {
    state_is inside running
    as_user touch "$HOME_DIR/end-inside"
    batchai job wait --name inside
    wait_until 60 nothing_is_queued
    local node
    for node in h1 h2 h3 h4; do
        wait_until 60 prints_nothing processes_of_user_on "$node"
    done
    wait_until 60 nodes_idle 4
}
