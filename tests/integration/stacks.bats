#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# `batchai job stacks`: jobs that stand still for reasons that are known here, and what it says of them.
# A rank in a container is in inject.bats.

bats_require_minimum_version 1.5.0
load lib
load stuck

setup() { make_home "stacks-$BATS_TEST_NUMBER"; }

teardown() {
    as_root_on h1 sh -c 'pkill -u bob -f ras-of-bob; rm -rf /tmp/ras-of-bob'
    end_hanging_jobs
}

no_step_of_stacks() { prints_nothing lines_like batchai-stacks as_user squeue -h -s -o %j; }

apart_is_told() {
    output=$(batchai job stacks apart) || return
    says "ranks 0-2 on h1, h2: in all_reduce(), called at apart.py:$(line_of apart.py 'dist.all_reduce(') in step()" &&
        says "rank 3 on h2: at apart.py:$(line_of apart.py 'queue.read(1)') in load()" &&
        says "    $HOME_DIR/apart.py:$(line_of apart.py 'queue.read(1)') in load"
}

# Breaks when a rank is not asked, is said to be on another node, or stands with those that are elsewhere.
@test "the rank that is elsewhere is named, with its node and line" {
    hangs apart 2 4 apart.py
    wait_until 60 apart_is_told
    # The same again, as values, and of one rank or node.
    run -0 --separate-stderr batchai job stacks apart --output json
    run -0 jq -c '[.groups[] | select(.role == "task") | {ranks: [.members[].rank], where}]' <<< "$output"
    says '{"ranks":[0,1,2],"where":"in all_reduce()'
    says '{"ranks":[3],"where":"at apart.py:'
    run -0 --separate-stderr batchai job stacks apart --rank 3
    [[ $output == *"rank 3 on h2: "* && $output != *all_reduce* ]]
    run -0 --separate-stderr batchai job stacks apart --node h1
    [[ $output == *"ranks 0-1 on h1: "* && $output != *h2* ]]
    # Who asks leaves nothing behind, and harms nobody.
    run -0 batchai job show --name apart --query executionState --output tsv
    [[ $output == running ]]
    wait_until 60 no_step_of_stacks
    run -5 batchai job stacks apart --rank 9
    [[ $output == *"found no process of rank 9"* ]]
    run -2 batchai job stacks apart --rank 1 --node h1
    run -5 batchai job stacks apart --node h9
}

# Breaks when the rank that has not come is not named, by the engine's operations or by a blocking call.
@test "mpi_bridge says which operation is open, and who has not come" {
    hangs open 2 4 bridge.py "$(jq -n --arg path "$PREFIX/lib/batchai/python" --arg home "$HOME_DIR" \
        '{environmentVariables: [{name: "PYTHONPATH", value: $path}, {name: "MARKS", value: $home}]}')"
    wait_until 60 stacks_say open ' s on ranks 0, 2-3; rank 1 has not submitted it, or did so less than 2 s ago'
    run -0 --separate-stderr batchai job stacks open
    echo "$output"
    [[ $output == *$'\n\nmpi_bridge: allreduce "gradient" has been open for '*" on ranks 0, 2-3; rank 1 has not"* ]]
    as_user touch "$HOME_DIR/go"
    wait_until 60 stacks_say open 'mpi_bridge: ranks 0, 2-3 wait for rank 1, which waits for nobody'
    wait_until 60 nothing_is_open
    run -0 --separate-stderr batchai job stacks open
    echo "$output"
    says "rank 1 on h1: at bridge.py:$(line_of bridge.py 'time.sleep(3000)') in be_late()"
}

nothing_is_open() {
    output=$(batchai job stacks open) && [[ $output != *"has been open"* ]]
}

# Breaks when a rank that has missed a collective of torch.distributed is not named, or by a wrong number, or
# when a rank that was asked does not go on.
@test "the flight recorder of torch says which collective is open, and who has not come" {
    hangs collectives 2 4 collectives.py
    local call='torch.distributed: call 2 of the default group has been open for '
    wait_until 60 stacks_say collectives "$call"
    run -0 --separate-stderr batchai job stacks collectives --threads
    echo "$output"
    [[ $output == *$'\n\n'"$call"*' s: gloo:all_reduce of Float [4] on ranks 0-1, 3; rank 2 has not made it, '* ]]
    says 'rank 2 has not made it, and last made call 1, gloo:broadcast of Float [10]'
    says 'torch.distributed: ranks 0-1, 3 wait for rank 2, which waits in no collective'
    says "rank 2 on h2: at collectives.py:$(line_of collectives.py 'time.sleep') in be_late()"
    # The thread that answers is not the program's.
    [[ $output != *batchai?torch* ]]
    run -0 --separate-stderr batchai job stacks collectives --output json
    run -0 jq -c '[.nodes[].processes[].torch | select(. != null) | {rank, open: [.groups[].open[].number]}] | sort_by(.rank)' <<< "$output"
    [[ $output == '[{"rank":0,"open":[2]},{"rank":1,"open":[2]},{"rank":2,"open":[]},{"rank":3,"open":[2]}]' ]]
    as_user touch "$HOME_DIR/go"
    run -0 batchai job wait --name collectives
}

# Breaks when something is sent to another user's process that has NCCL's port, or its word is taken.
@test "NCCL is asked by the port of its RAS, and only if that is a process of the job" {
    hangs ras 1 1 ras.py '{"environmentVariables": [{"name": "NAME", "value": "alice"},
        {"name": "MARKS", "value": "'"$HOME_DIR"'"}]}'
    run -0 --separate-stderr batchai job stacks ras
    echo "$output"
    [[ $output == *$'\n\nNCCL, asked on h1:\n    NCCL as alice has it\n\n    Communicators... OK' ]]
    cancel_jobs
    wait_until 60 nothing_is_queued
    # Bob is there first.
    as_root_on h1 install -d -o bob /tmp/ras-of-bob
    as_root_on h1 install -m 644 /dev/stdin /tmp/ras-of-bob/ras.py < "$SOURCE/tests/integration/stacks/ras.py"
    "$(program_of_exec)" --user bob --host h1 -- env NAME=bob MARKS=/tmp/ras-of-bob "$PYTHON" /tmp/ras-of-bob/ras.py \
        3>&- 4>&- &
    wait_until 60 as_root_on h1 test -e /tmp/ras-of-bob/there-bob
    as_user rm "$HOME_DIR/there-alice"
    hangs still 1 1 ways.py
    run -0 --separate-stderr batchai job stacks still
    echo "$output"
    [[ $output == *"rank 0 on h1: "* && $output != *NCCL* ]]
    run -1 as_root_on h1 test -e /tmp/ras-of-bob/called-bob
}

# Breaks when Yama, which is not in this kernel, would keep us from the ranks: it asks for CAP_SYS_PTRACE over the
# user namespace of the rank, as the kernel does for a process that is not to be looked into.
@test "a job's user has over its ranks the right that Yama asks for" {
    hangs closed 1 1 seize.py
    local of_rank of_host
    of_rank=$(as_root_on h1 pgrep -u alice -f "^$PYTHON $HOME_DIR/seize.py")
    run -0 as_user_on h1 "$PYTHON" "$HOME_DIR/seize.py" "$of_rank"
    echo "$output"
    [[ $output == "traces it" ]]
    # Over another process of the same user on the same host there is no such right.
    as_user rm "$HOME_DIR/there-0"
    as_user_on h1 env MARKS="$HOME_DIR" "$PYTHON" "$HOME_DIR/seize.py" 3>&- 4>&- &
    wait_until 60 are_there 1
    of_host=$(as_root_on h1 pgrep -u alice -f "^$PYTHON $HOME_DIR/seize.py" | grep -vx "$of_rank")
    run -0 as_user_on h1 "$PYTHON" "$HOME_DIR/seize.py" "$of_host"
    as_root_on h1 kill "$of_host"
    wait
    [[ $output == "Operation not permitted" ]]
}

# A rank says that it is there just before it stands still.
ways_are_told() {
    output=$(batchai job stacks ways --threads) || return
    # Python may be at the line of the loop in spin() or in it.
    says "rank 0 on h1: at ways.py:$(line_of ways.py 'lock.acquire()') in take_lock()" &&
        says "a thread of rank 0 on h1: at ways.py:$(line_of ways.py 'time.sleep(3000)') in hold_lock()" &&
        says "rank 1 on h1: at ways.py:$(line_of ways.py 'os.write(writer') in fill_pipe()" &&
        says "rank 2 on h1: ${PYTHON##*/} stopped by a signal" &&
        says "rank 3 on h2: in get(), called at ways.py:$(line_of ways.py 'from_worker.get()') in wait_for_worker()" &&
        grep -E "^rank 4 on h2: at ways.py:[0-9]+ in spin\(\)$" <<< "$output" &&
        says "rank 5 on h2: in join(), called at ways.py:$(line_of ways.py 'worker.join()') in wait_for_thread()" &&
        says "a thread of rank 5 on h2: in wait(), called at ways.py:$(line_of ways.py 'never.wait()') in work()" &&
        says "rank 6 on h3: in wait(), called at ways.py:$(line_of ways.py '.wait()  # for sleep') in wait_for_program()" &&
        grep -E "^process [0-9]+ of rank 6 on h3: sleep waits, in the kernel's " <<< "$output" &&
        says "rank 7 on h3: in accept(), called at ways.py:$(line_of ways.py 'server.accept()') in serve()" &&
        grep -E "^rank 8 on h3: ${PYTHON##*/} in uninterruptible sleep for [0-9]+ s, in the kernel's " <<< "$output"
}

# Breaks when one of these ways to stand still is not told from the others.
@test "nine ranks that stand still in nine ways are told apart" {
    hangs ways 3 9 ways.py
    wait_until 60 ways_are_told
}

# Breaks when a rank can be asked only if it has imported a framework of ours, or a program of C is not named.
@test "programs of C, and jobs that do not want it, are told by what the kernel says" {
    write_mpi_job plain.json 2 "exec sleep 600"
    run -0 batchai job create --name plain -f plain.json -o none
    wait_until 60 stacks_say plain "ranks 0-1 on h1, h2: sleep waits, in the kernel's "
    as_user scancel --me
    wait_until 60 nothing_is_queued
    as_user rm -f "$HOME_DIR"/there-*
    hangs without 1 1 ways.py '{"environmentVariables": [{"name": "BATCHAI_STACKS", "value": "0"},
        {"name": "MARKS", "value": "'"$HOME_DIR"'"}]}'
    run -0 --separate-stderr batchai job stacks without
    says "rank 0 on h1: ${PYTHON##*/} "
    [[ $output != *ways.py:* ]]
    run -0 --separate-stderr batchai job stacks without --native
    says ' in Py_RunMain'
}
stacks_say() { batchai job stacks "$1" | grep -F -- "$2"; }

# late_is_told LINE…: the job "late" is at these lines.
late_is_told() {
    output=$(batchai job stacks late) || return
    local line
    for line; do says "$line" || return; done
}

# Breaks when a program of C is not told from others by its own lines, or does not go on afterwards.
@test "an MPI program tells which rank has not come, and at which line it is" {
    needs_pmix
    local call lines
    call="in MPI_Allreduce(), called at late.c:$(line_of late.c 'MPI_Allreduce(') in sum_up()"
    lines=("ranks 0-1, 3 on h1, h2: $call"
        "rank 2 on h2: in nanosleep(), called at late.c:$(line_of late.c 'nanosleep(&pause') in be_late()")
    hangs_in_c late 2 4 late
    wait_until 60 late_is_told "${lines[@]}"
    # In a Python, the stacks of C are those of its interpreter and of what that calls.
    run -0 batchai job stacks late --threads --rank 0
    [[ $output == *"a thread of rank 0 on h1: "* ]]
    as_user touch "$HOME_DIR/go"
    run -0 batchai job wait --name late
}

# Breaks when what a user has set for Python is lost, or another sitecustomize no longer runs.
@test "the user's PYTHONPATH and sitecustomize stay as they are" {
    as_user mkdir "$HOME_DIR/mine"
    write_home mine/sitecustomize.py <<< 'print("mine runs")'
    write_home mine/theirs.py <<< 'print("and is found")'
    write_mpi_job path.json 1 "exec /usr/bin/python3 -c 'import os, theirs; print(os.environ[\"PYTHONPATH\"])'" \
        '{"environmentVariables": [{"name": "PYTHONPATH", "value": "'"$HOME_DIR"'/mine:/nowhere"}]}'
    run -0 batchai job create --name path -f path.json -o none
    run -0 batchai job wait --name path
    run -0 output_of path
    echo "$output"
    [[ $output == *$'\nmine runs\nand is found\n'*"/mpi_bridge/hook:$HOME_DIR/mine:/nowhere" ]]
}

# Breaks when a node that does not answer takes the answers of the others with it, or is not named.
@test "a node that does not answer is named, and the others are shown" {
    hangs dead 2 2 ways.py
    as_root_on h2 pkill -STOP -F "$(pid_file_of_slurmd h2)"
    run batchai job stacks dead
    as_root_on h2 pkill -CONT -F "$(pid_file_of_slurmd h2)"
    echo "$status $output"
    [[ $status -eq 1 && $output == *"rank 0 on h1: "* && $output != *"on h2"* && $output == *"warning: h2: has not answered"* ]]
    wait_until 60 no_step_of_stacks
    wait_until 60 stacks_say dead "rank 1 on h2: "
}

# Breaks when it says nothing, or something else, of a job that has no ranks.
@test "what cannot be shown is said" {
    run -2 batchai job stacks
    write_mpi_job over.json 1 true
    run -0 batchai job create --name over -f over.json -o none
    batchai job wait --name over
    run -1 batchai job stacks over
    echo "$output"
    [[ $output == *"over: the job is not running"*succeeded* ]]
    run -5 batchai job stacks nobody
    echo "$output"
    [[ $output == *"there is no job"* ]]
}
