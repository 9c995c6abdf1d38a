#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Sweeps, and array jobs as the verbs of jobs combine them. docs/sweeps.md, which trains and compares
# a real model, is a test of its own in quickstarts.bats.

bats_require_minimum_version 1.5.0
load lib

setup() {
    make_home "sweep-$BATS_TEST_NUMBER"
}

teardown() {
    cancel_jobs
    wait_until 60 nothing_is_queued
    remove_home
}

# sweep NAME COMMAND SWEEP [MORE]: NAME.json, with SWEEP and more properties as JSON.
sweep() {
    jq -n --arg logs "$HOME_DIR/logs" --arg command "$2" --argjson sweep "$3" \
        --argjson more "${4:-{\}}" '{properties: ({nodeCount: 1, stdOutErrPathPrefix: $logs,
            customMpiSettings: {commandLine: $command}, sweep: $sweep} + $more)}' |
        write_home "$1.json"
}

show() { batchai sweep show --name "$1" --output json; }
# states NAME: of the points, in their order.
states() { show "$1" | jq -c '[.[].executionState]'; }
states_are() { [[ $(states "$1") == "$2" ]]; }
counts() { batchai job show --name "$1" --output json | jq -c ".taskStateCounts | [$2]"; }
counts_are() { [[ $(counts "$1" "$2") == "$3" ]]; }
slurm_id() { batchai job show --name "$1" --query slurmJobId --output tsv; }
records() { echo "$HOME_DIR/records/groups/default/workspaces/default/experiments/default/jobs/$1"; }

# Trains a logistic regression by hand on the points of a circle's two halves, and prints the loss.
write_training() {
    write_home train.py <<'PYTHON'
import math, os, random

rate = float(os.environ["AZ_BATCHAI_SWEEP_LR"])
draw = random.Random(int(os.environ["AZ_BATCHAI_SWEEP_SEED"]))
points = [(math.cos(t), math.sin(t)) for t in (draw.uniform(0, 2 * math.pi) for _ in range(300))]
w = [0.0, 0.0]
for epoch in range(15):
    loss = 0.0
    for x, y in points:
        label = 1 if x + 2 * y > 0 else -1
        margin = label * (w[0] * x + w[1] * y)
        loss += math.log1p(math.exp(-margin)) / len(points)
        slope = label / (1 + math.exp(margin))
        w = [w[0] + rate * slope * x, w[1] + rate * slope * y]
    print(f"epoch {epoch} loss={loss:.6f}", flush=True)
PYTHON
}

# Breaks when a point does not get its own parameters, or the metric of another one, when the cap
# does not reach Slurm, or when a command stumbles over a record that is being written.
@test "a grid trains its points, shows their metrics and finds the best" {
    write_training
    sweep grid "python3 $HOME_DIR/train.py" '{"parameters": {"lr": [0.001, 0.3], "seed": "1-2"},
        "maxConcurrent": 2, "metric": {"pattern": "loss=([0-9.]+)", "goal": "min"}}'
    create grid
    as_user scontrol show job "$(slurm_id grid)" | grep -q 'ArrayTaskThrottle=2'
    local looks=0
    until [[ $(counts grid '.queued, .running') == '[0,0]' ]]; do
        show grid > /dev/null
        looks=$((looks + 1))
        [[ $looks -lt 200 ]]
    done
    run -0 batchai job wait --name grid
    [[ $output == *"Job state: succeeded"* ]]
    [[ $(show grid | jq -c '[.[] | [.point, .parameters.lr, .parameters.seed]]') == \
        '[[0,0.001,1],[1,0.001,2],[2,0.3,1],[3,0.3,2]]' ]]
    # What is shown is what the point has printed last.
    local point
    for point in 0 1 2 3; do
        [[ $(batchai job logs grid --task $point --tail 1) == "epoch 14 loss=$(show grid |
            jq ".[$point].metric")"* ]]
    done
    local best
    best=$(batchai sweep best --name grid --output json)
    [[ $(jq .metric <<< "$best") == $(show grid | jq '[.[].metric] | min') ]]
    [[ $(jq .parameters.lr <<< "$best") == 0.3 ]]
    as_user grep -q "loss=" "$(jq -r .stdOutErr <<< "$best")/stdout.txt"
    [[ $(batchai sweep list --output tsv --query '[].[name, taskStateCounts.succeeded]') == $'grid\t4' ]]
    [[ $(batchai job list --query '[].[name, executionState, taskStateCounts.total]' --output tsv) == \
        $'grid\tsucceeded\t4' ]]
    run -0 batchai sweep show --name grid --point 1,3 --output table
    [[ ${lines[0]} == *"Point "*" lr "*" seed "*"State "*"Metric "*"Duration" && ${#lines[@]} -eq 4 ]]
    [[ $(batchai job file list --job grid --query '[].name' --output tsv) == \
        *task-0/stdout.txt*task-3/stdout.txt* ]]
    [[ $(as_user find "$HOME_DIR/logs" -path '*/task-3/stdouterr/stdout.txt' | wc -l) -eq 1 ]]
    [[ $(batchai job show --name grid --task 2 --output json |
        jq -c '[.task, .executionState, (.attempts | length)]') == '[2,"succeeded",1]' ]]
    run -5 batchai job show --name grid --task 4
    [[ $output == *"its tasks are 0-3"* ]]
    # Its file must not change after the submission.
    as_user sed -i s/0.3/0.4/ "$(records grid)/sweep.json"
    run -1 batchai sweep show --name grid
    [[ $output == *"has changed since the job was submitted"* ]]
    run -1 as_bob cat "$(records grid)/sweep.json"
}

# Breaks when a retry runs other points, or the same under other parameters, or when it takes the
# record or the logs of an earlier attempt away.
@test "failed points are queued again with their parameters, and keep their records" {
    sweep again "echo point \$AZ_BATCHAI_SWEEP_POINT x=\$AZ_BATCHAI_SWEEP_X
        [ \$AZ_BATCHAI_SWEEP_X = a ] || [ -e $HOME_DIR/mended ] || exit \$AZ_BATCHAI_SWEEP_X" \
        '{"parameters": {"x": ["7", "a", 9]}, "metric": {"pattern": "x=([0-9]+)", "goal": "max"}}'
    create again
    # That of the first task that has failed.
    run -7 batchai job wait --name again
    [[ $output == *"Task: 0"* ]]
    [[ $(states again) == '["failed","succeeded","failed"]' ]]
    [[ $(batchai sweep best --name again --query point) == 2 ]]
    run -4 batchai sweep retry --name again --point 1
    [[ $output == *"point 1 has not failed"* ]]
    as_user touch "$HOME_DIR/mended"
    run -0 batchai sweep retry --name again --output json
    [[ $output == *"2 points are queued again"*": 0,2"* ]]
    # Those of the first attempt may still be completing.
    [[ $(as_user squeue -h -r -t pending,running -o %K | sort | xargs) == "0 2" || $(states again) != *queued* ]]
    run -0 batchai job wait --name again
    [[ $(show again | jq -c '[.[] | [.executionState, .attempt, .parameters.x]]') == \
        '[["succeeded",2,7],["succeeded",1,"a"],["succeeded",2,9]]' ]]
    [[ $(batchai job show --name again --task 2 --output json |
        jq -c '[.attempts[] | [.attempt, .exitCode]]') == '[[1,9],[2,0]]' ]]
    [[ $(batchai job logs again --task 2 --attempt 1) == "point 2 x=9" ]]
    [[ $(batchai job logs again --task 2) == "point 2 x=9" ]]
    run -0 batchai sweep retry --name again
    [[ $output == *"no point has failed"* ]]
    wait_until 60 nothing_is_queued
    # The retried points belong to the job.
    run -0 batchai job delete --name again --yes
    prints_nothing as_user find "$HOME_DIR/records" -name again
}

# Breaks when a task that has succeeded runs again, or one that has failed runs under another number, in
# another directory, or without the earlier attempt's record.
@test "the failed tasks of an array job are resumed" {
    jq -n --arg home "$HOME_DIR" '{properties: {nodeCount: 1, stdOutErrPathPrefix: "\($home)/logs",
        slurm: {array: "1-3%2"}, customToolkitSettings: {commandLine:
            "echo task $SLURM_ARRAY_TASK_ID; [ $SLURM_ARRAY_TASK_ID = 2 ] || [ -e \($home)/repaired ] || exit $SLURM_ARRAY_TASK_ID"}}}' |
        write_home tasks.json
    create tasks
    run -1 batchai job wait --name tasks
    run -4 batchai job resume --name tasks --task 2
    [[ $output == *"task 2 has not failed: it is succeeded"* ]]
    run -5 batchai job resume --name tasks --task 7
    [[ $output == *"no task 7"*"its tasks are 1-3"* ]]
    run -0 batchai job resume --name tasks --task 3
    [[ $output == *"1 task is queued again"*": 3"* ]]
    run -1 batchai job wait --name tasks
    as_user touch "$HOME_DIR/repaired"
    run -0 batchai job resume --name tasks
    [[ $output == *"2 tasks are queued again"*": 1,3"* ]]
    run -0 batchai job wait --name tasks
    [[ $(batchai job show --name tasks --task 3 --output json |
        jq -c '[.attempts[] | [.attempt, .exitCode]]') == '[[1,3],[2,3],[3,0]]' ]]
    [[ $(batchai job show --name tasks --task 2 --query 'length(attempts)') == 1 ]]
    run -4 batchai job resume --name tasks
    [[ $output == *"no task of the job has failed"* ]]
    # What was queued by hand is the job's, too.
    run -0 batchai job delete --name tasks --yes
    # Tasks that have ended are listed until they have been cleaned up.
    wait_until 60 nothing_is_queued
}

# Breaks when tasks that are resumed start before the record knows them: then nobody finds them if
# sbatch gives up, and after a termination they end as if their user had ended them once more.
@test "tasks that are resumed start only when they are recorded" {
    jq -n --arg home "$HOME_DIR" '{properties: {nodeCount: 1, stdOutErrPathPrefix: "\($home)/logs",
        slurm: {array: "0-1"}, retry: {on: ["timeout"], max: 1}, customToolkitSettings: {commandLine:
            "until [ -e \($home)/may-end ]; do sleep 0.2; done; echo ended >> \($home)/ends"}}}' |
        write_home held.json
    create held
    wait_until 60 state_is held running
    batchai job terminate --name held --yes
    as_user mkdir "$HOME_DIR/slow" "$HOME_DIR/lost"
    write_home slow/sbatch <<< $'#!/bin/sh\n/usr/bin/sbatch "$@"; code=$?; sleep 3; exit $code'
    write_home lost/sbatch <<< $'#!/bin/sh\n/usr/bin/sbatch "$@" > /dev/null\necho "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1'
    as_user chmod 755 "$HOME_DIR/slow/sbatch" "$HOME_DIR/lost/sbatch"
    as_user touch "$HOME_DIR/may-end"
    run -4 batchai_with "PATH=$HOME_DIR/lost:$PATH" job resume --name held
    echo "$output"
    # Slurm has taken the array although sbatch has given up.
    [[ $output == *"was ended; it has not run"*"timed out"* ]]
    wait_until 60 nothing_is_queued
    prints_nothing as_user find "$HOME_DIR" -maxdepth 1 -name ends
    run -0 batchai_with "PATH=$HOME_DIR/slow:$PATH" job resume --name held
    run -0 batchai job wait --name held
    lines_are 2 "$(as_user cat "$HOME_DIR/ends")"
    batchai job delete --name held --yes
}

# Breaks when a value is expanded, split or executed on its way to the ranks.
@test "values with quotes, line breaks, commands and dashes reach the ranks as they are" {
    local values
    values=$(jq -nc '["it'"'"'s \"so\"", "two\nlines", "$(touch /tmp/sweep-attack)`id`$HOME",
        "--help -x", "; exit 9 #", "%a%j ${AZ_BATCHAI_SWEEP_POINT}", "", "ü*"]')
    sweep odd "printf %s \"\$AZ_BATCHAI_SWEEP_TEXT\" > \$AZ_BATCHAI_OUTPUT_HERE/value" \
        "$(jq -c '{parameters: {text: .}}' <<< "$values")" \
        '{"outputDirectories": [{"id": "HERE", "pathPrefix": "'"$HOME_DIR"'/out",
            "pathSuffix": "p$AZ_BATCHAI_SWEEP_POINT"}]}'
    create odd
    run -0 batchai job wait --name odd
    local point
    for point in {0..7}; do
        diff <(jq -j ".[$point]" <<< "$values") \
            <(as_user bash -c "cat $HOME_DIR/out/*/*/workspaces/*/experiments/*/jobs/odd/*/task-$point/outputs/p$point/value")
    done
    prints_nothing as_user find /tmp -maxdepth 1 -name sweep-attack
    # On a terminal a value cannot play tricks.
    sweep tricks true '{"parameters": {"text": ["\u001b[2J\u0007", "a"]}}'
    run -0 batchai job create --config-file tricks.json --dry-run
    [[ $output != *$'\e'* && $output != *$'\a'* ]]
    # In a path, a value cannot lead to another directory.
    sweep leads true '{"parameters": {"text": ["../../../x"]}}' \
        '{"outputDirectories": [{"id": "HERE", "pathPrefix": "'"$HOME_DIR"'/out/$AZ_BATCHAI_SWEEP_TEXT"}]}'
    run -3 batchai job create --config-file leads.json
    [[ $output == *E122* ]]
}

# Breaks when a pattern that takes exponential time elsewhere makes the command hang.
@test "a hostile pattern ends, and so does a huge line" {
    sweep pattern "head -c 3000000 /dev/zero | tr '\\0' a; echo; echo acc=0.5" \
        '{"parameters": {"x": [1]}, "metric": {"pattern": "^(?:(?:a|a)+)+$|acc=(.+)", "goal": "max"}}'
    create pattern
    run -0 batchai job wait --name pattern
    [[ $(batchai sweep best --name pattern --query metric) == 0.5 ]]
}

# Breaks when a sweep that Slurm cannot take leaves something behind, or says so in a way that nobody
# understands; or when --sweep is not checked.
@test "too many points are refused with words, and nothing is left" {
    sweep many true '{"parameters": {"a": "1-100", "b": "1-101"}}'
    run -3 batchai job create --name many --config-file many.json
    [[ $output == *"a sweep has at most 10000 points"* ]]
    sweep many true '{"parameters": {"a": "1-100", "b": "1-100"}}'
    run -0 batchai job create --name many --config-file many.json --dry-run
    [[ $output == *"# "*" 9999 "*" 100 "*" 100"* ]]
    # A site may take as many.
    if (($(as_user scontrol show config | grep -oP '^MaxArraySize *= *\K\d+$') <= 10000)); then
        run -4 batchai job create --name many --config-file many.json
        [[ $output == *"the sweep has 10000 points, and an array job of this Slurm has at most "* ]]
        run -1 batchai job create --name many --config-file many.json --dry-run --check
    fi
    prints_nothing as_user squeue -h
    run -5 batchai job show --name many
    sweep few true '{"parameters": {"a": [1, 2]}}'
    run -2 batchai job create --config-file few.json --sweep b
    run -2 batchai job create --config-file few.json --sweep a-b=1
    run -2 batchai job create --config-file few.json --sweep a=1-20000
    run -2 batchai job create --config-file few.json --sweep-max 0
    run -2 batchai job create --config-file few.json --follow
    run -0 batchai job create --config-file few.json --dry-run --sweep b=x,y --sweep a=3 --sweep-max 1
    [[ $output == *"--array=0-1%1"*"Point"*"a"*"b"*"0"*"3"*"x"*"1"*"3"*"y"* ]]
    run ! as_user bash -c "cd $HOME_DIR && srun --job-json=few.json true"
}

# Breaks when stop ends points that run in spite of --queued-only, or leaves some; when one task
# takes others with it; or when the state does not follow from those of the tasks.
@test "points are stopped: one, those that wait, and all" {
    sweep stop 'exec sleep 300' '{"parameters": {"x": "1-6"}, "maxConcurrent": 2}'
    create stop
    wait_until 60 counts_are stop '.running' '[2]'
    state_is stop running
    run -2 batchai sweep stop --name stop
    run -0 batchai job terminate --name stop --task 5 --yes
    [[ $(states stop) == '["running","running","queued","queued","queued","failed"]' ]]
    # Slurm forgets such a task at once.
    run -255 batchai job wait --name stop --task 5
    [[ $output == *"Error message: The task was cancelled while it waited"*"EndedBy: user"* ]]
    run -0 batchai sweep stop --name stop --queued-only --yes
    wait_until 60 states_are stop '["running","running","failed","failed","failed","failed"]'
    state_is stop running
    run -0 batchai sweep stop --name stop --yes
    [[ $(states stop) == '["failed","failed","failed","failed","failed","failed"]' ]]
    [[ $(batchai job show --name stop --query 'executionInfo.errors[0].code' --output tsv) == JobTerminated ]]
    run -255 batchai job wait --name stop
}

# Breaks when a task that was requeued shows the end of its last attempt, or counts twice.
@test "a task that is requeued counts once, with both attempts" {
    sweep requeued "[ \$AZ_BATCHAI_SWEEP_X = 1 ] || exit 0
        [ \${SLURM_RESTART_COUNT:-0} -gt 0 ] || exec sleep 300" '{"parameters": {"x": [1, 2]}}'
    create requeued
    wait_until 60 states_are requeued '["running","succeeded"]'
    as_user scontrol requeue "$(slurm_id requeued)_0"
    wait_until 60 states_are requeued '["queued","succeeded"]'
    [[ $(counts requeued '.queued, .succeeded, .total') == '[1,1,2]' ]]
    state_is requeued running
    start_again "$(slurm_id requeued)_0"
    run -0 batchai job wait --name requeued
    [[ $(show requeued | jq -c '[.[] | [.executionState, .attempt]]') == '[["succeeded",2],["succeeded",1]]' ]]
}
