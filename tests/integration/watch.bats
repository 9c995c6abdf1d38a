#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# "watch" in job.json: jobs that stand still are noticed, and those that only say nothing are left alone.

bats_require_minimum_version 1.5.0
load lib
load stuck

setup() { make_home "watch-$BATS_TEST_NUMBER"; }

teardown() { end_hanging_jobs; }

# watched WATCH [MORE] [NAME=VALUE…]: what hangs() adds to a job.
watched() {
    jq -n --arg home "$HOME_DIR" --argjson watch "$1" --argjson more "${2:-{\}}" '{watch: $watch,
        environmentVariables: ([{name: "OMP_NUM_THREADS", value: "1"}, {name: "MARKS", value: $home}] +
            ($ARGS.positional | map(capture("(?<name>[^=]*)=(?<value>.*)"))))} + $more' --args "${@:3}"
}

# The record of the test's job.
record() { as_user sh -c "cat \$(find $HOME_DIR/records -path '*/attempts/1.json')"; }

ended_by_watch() { record | jq -e '.endedBy == "'"${1:-hang}"'"'; }
has_alarm() { [[ $(batchai job show --name "$1" --query 'executionInfo.alarms[0].message' -o tsv) == *"$2"* ]]; }

# Breaks when the rank that holds up the others is not named, when the ranks stay, or when the job is not to
# run again, or may run on the same node. Slurm itself starts such a job after two minutes only.
@test "a job that hangs is ended, says who held it up, and is queued again without that node" {
    hangs apart 2 4 apart.py "$(watched '{"silence": "PT10S", "action": "end"}' \
        '{"retry": {"on": ["hang"], "max": 1, "excludeFailedNodes": true}}')"
    wait_until 120 ended_by_watch
    wait_until 60 has_excluded_h2
    run -0 record
    local line
    line=$(line_of apart.py 'queue.read(1)')
    jq -e --arg where "at apart.py:$line in load()" '.exitCode == 1 and .retried.queued and
        .failure.code == "JobHung" and .failure.node == "h2" and .failure.rank == 3 and
        (.failure.firstErrorLine | endswith($where)) and
        (.alarms | length) == 1 and .alarms[0].where == $where and .alarms[0].stacks == "stacks-1-1.txt"' <<< "$output"
    run -0 --separate-stderr batchai job events apart
    echo "$output"
    run -0 jq -r '.[] | select(.kind == "alarm") | [.node, .rank, .text] | @tsv' <<< "$output"
    [[ $output == $'h2\t3\tthe ranks have printed nothing and done nothing for '*" s (\"watch.silence\"): at apart.py:$line in load()" ]]
    run -0 stacks_file
    says "ranks 0-2 on h1, h2: in all_reduce(), called at apart.py:$(line_of apart.py 'dist.all_reduce(') in step()"
    says "rank 3 on h2: at apart.py:$line in load()"
    wait_until 60 nodes_are_clean h1 h2
}
has_excluded_h2() { [[ $(as_user squeue -h -o %x --me) == h2 ]]; }
stacks_file() { as_user sh -c "cat \$(find $HOME_DIR/logs -name stacks-1-1.txt)"; }

# Breaks when a job that only says where it stands is ended, or is not said to go on.
@test "a report ends nothing, and the job's end is its own" {
    hangs late 2 2 apart.py "$(watched '{"silence": "PT10S"}')"
    wait_until 120 has_alarm late 'the ranks have printed nothing and done nothing for '
    run -0 batchai job show --name late --query executionState -o tsv
    [[ $output == running ]]
    # The reader of the fifo gets a byte, and the others get the rank for which they wait. On a remote
    # file system, each host has a fifo of its own.
    as_user_on h2 sh -c "printf x > $HOME_DIR/fifo"
    run -0 --separate-stderr batchai job wait --name late
    # shellcheck disable=SC2154 # bats sets it
    echo "$stderr"
    [[ $stderr == *"warning: the ranks have printed nothing and done nothing for "* &&
        $stderr == *"waiting for rank 1 on h2: at apart.py:"*" in load()"* ]]
    run -0 execution_log
    says 'the ranks print or do something again ("watch.silence")'
    run -0 batchai job show --name late --query 'executionInfo.[exitCode, length(alarms)]' -o json
    jq -e '. == [0, 1]' <<< "$output"
}
execution_log() { as_user sh -c "cat \$(find $HOME_DIR/logs -name 'execution*.log')"; }

# Breaks when a job is ended although it does something: five jobs that print nothing for three times as long.
@test "what works in silence is left alone" {
    write_home quiet.py < "$SOURCE/tests/integration/stacks/quiet.py"
    local way
    for way in compute read bursts thread child; do
        jq -n --arg home "$HOME_DIR" --arg way "$way" --arg command "exec $PYTHON $HOME_DIR/quiet.py" \
            --argjson more "$(watched '{"silence": "PT15S", "action": "end"}' '{}' "WAY=$way" WORK=45)" '
            {properties: ({nodeCount: 1, stdOutErrPathPrefix: ($home + "/logs-" + $way),
                customMpiSettings: {commandLine: $command, processCount: 1}} + $more)}' |
            write_home "$way.json"
        run -0 batchai job create --name "$way" -f "$way.json" -o none
    done
    for way in compute read bursts thread child; do
        run -0 batchai job wait --name "$way"
        run -0 batchai job show --name "$way" --query 'executionInfo.[exitCode, alarms]' -o json
        jq -e '. == [0, null]' <<< "$output"
    done
}

# Breaks when a progress bar is no progress, or when ranks that spin and print other lines seem to get on.
@test "a job whose lines of progress end is ended, however busy it is" {
    hangs lines 1 1 lines.py "$(watched '{"progress": {"pattern": "^step [0-9]+", "within": "PT10S"}, "action": "end"}')"
    run ! batchai job wait --name lines
    run -0 record
    jq -e '.endedBy == "hang" and (.alarms | length) == 1 and
        (.failure.firstErrorLine | test("^the ranks have printed no line of progress for [1-9][0-9]+ s")) and
        (.failure.firstErrorLine | contains("lines.py"))' <<< "$output"
    # The bar has gone on for longer than the limit.
    run -0 output_of lines
    [[ $output == *"step 15"*"ends its steps"*"still here"* ]]
}

# Breaks when the time in which Slurm has suspended a job counts as that of its ranks, or when nobody says that
# it is suspended. The rank prints nothing at first when it goes on.
@test "a job that Slurm suspends for longer than its watch allows goes on" {
    write_mpi_job suspended.json 1 "echo step 1; until [ -e $HOME_DIR/go ]; do sleep 0.2; done; echo step 2" \
        "$(watched '{"progress": {"pattern": "^step", "within": "PT20S"}, "action": "end"}')"
    create suspended
    wait_until 60 has_printed suspended 'step 1'
    # Once its first sample is there.
    wait_until 60 batchai job top suspended --once
    local id since
    id=$(batchai job show --name suspended --query slurmJobId --output tsv)
    as_root_on login scontrol suspend "$id"
    since=$SECONDS
    batchai job wait --name suspended 2> "$BATS_TEST_TMPDIR/said" &
    run -1 batchai job node exec --job suspended --exec true
    [[ $output == *"nothing can be started in the job: it is running (Slurm job $id: SUSPENDED"* ]]
    run -0 batchai job top suspended --once
    [[ $output == *"Slurm job $id  suspended, phase"* ]]
    ((SECONDS - since < 15))
    wait_until 60 eval '((SECONDS - since > 21))'
    as_root_on login scontrol resume "$id"
    since=$SECONDS
    wait_until 30 eval '((SECONDS - since > 5))'
    as_user touch "$HOME_DIR/go"
    wait "$!"
    cat "$BATS_TEST_TMPDIR/said"
    grep -q '^The job is suspended' "$BATS_TEST_TMPDIR/said"
    run -0 batchai job show --name suspended --query 'executionInfo.[exitCode, alarms]' -o json
    jq -e '. == [0, null]' <<< "$output"
}
has_printed() { batchai job logs "$1" | grep "$2"; }

# Breaks when mpi_bridge's own messages about a stall hide it, or the rank that has not come is not named.
@test "a job of mpi_bridge that says itself that it stands still is noticed" {
    hangs open 2 4 bridge.py "$(watched '{"silence": "PT10S"}' '{}' "PYTHONPATH=$PREFIX/lib/batchai/python" \
        MPI_BRIDGE_STALL_SECONDS=2)"
    wait_until 120 has_alarm open 'the ranks have printed nothing and done nothing for '
    run -0 record
    jq -e '.alarms[0] | .rank == 1 and .node == "h1" and (.where | startswith("at bridge.py:"))' <<< "$output"
    run -0 batchai job logs open --stderr
    [[ $output == *'have waited for '* || $output == *'has waited for '* ]]
}

# Breaks when an elastic job gives its nodes back because its ranks hang.
@test "an elastic job starts its ranks again at once, on the same nodes" {
    hangs again 2 2 apart.py "$(watched '{"silence": "PT10S", "action": "end"}' '{}' \
        BATCHAI_ELASTIC_MIN_NODES=2 BATCHAI_ELASTIC_RESTARTS=1 ONCE=start)"
    run -0 batchai job wait --name again
    run -0 record
    jq -e '.exitCode == 0 and .attempt == 1 and (.restarts | length) == 1 and
        .restarts[0].failure.code == "JobHung" and (.alarms | length) == 1' <<< "$output"
}

# Breaks when a wish that cannot come true is taken, or the flag is not that of the file.
@test "what cannot be watched is refused, and --watch is silence" {
    write_mpi_job none.json 1 true '{"watch": {"action": "end"}}'
    run -3 batchai job create --name none -f none.json
    echo "$output"
    [[ $output == *'"watch" watches nothing'*E134* ]]
    write_mpi_job idle.json 1 true '{"watch": {"idleGpu": "PT10M"}}'
    run -3 batchai job create --name none -f idle.json
    [[ $output == *"the job has no GPUs that could be idle"* ]]
    write_mpi_job bad.json 1 true '{"watch": {"progress": {"pattern": "(", "within": "PT10M"}}}'
    run -3 batchai job create --name none -f bad.json
    [[ $output == *"is not a regular expression"* ]]
    write_mpi_job plain.json 1 true
    run -2 batchai job create --name none -f plain.json --watch 10
    echo "$output"
    [[ $output == *"--watch: is not a time from 10 seconds to 7 days"* ]]
    run -0 batchai job create --name none -f plain.json --watch PT10M --dry-run
    [[ $output == *'"silence": 600'* ]]
}

# Breaks when a slow rank is not named, or when a job that goes on is said to stand still.
@test "a job that a slow rank holds up is ended, and queued again without that node" {
    hangs slow 2 4 slow.py "$(watched '{"slowRank": {"percent": 150, "over": "PT30S"}, "action": "end"}' \
        '{"retry": {"on": ["slow"], "max": 1, "excludeFailedNodes": true}}' WAY=calls \
        "PYTHONPATH=$PREFIX/lib/batchai/python")"
    wait_until 170 ended_by_watch slow
    wait_until 60 has_excluded_h2
    run -0 record
    jq -e '.failure.code == "JobSlow" and .failure.node == "h2" and .failure.rank == 2 and
        (.alarms | length) == 1 and (.alarms[0].message |
            test("^rank 2 on h2 has needed [1-9][.][0-9] times as long as the median of the others between " +
                "collectives for 30 s .\"watch.slowRank\".$"))' <<< "$output"
    run -0 stacks_file
    says 'rank 2 on h2 has needed '
}

# Breaks when what the ranks wait in collectives is not shown, or is not that of the rank.
@test "job top names the rank for which the others wait, in the engine and in blocking calls" {
    local way
    for way in engine calls; do
        hangs "$way" 2 4 slow.py "$(watched 'null' \
            '{}' "WAY=$way" "PYTHONPATH=$PREFIX/lib/batchai/python")"
        wait_until 120 rank_2_is_named "$way"
        run -0 --separate-stderr batchai job top "$way" --once
        echo "$output"
        [[ $output == *"Wait%"* ]]
        # Over the whole run, from what is noted when nobody watches.
        wait_until 120 rank_2_is_awaited "$way"
        as_user scancel --me
        wait_until 60 nothing_is_queued
        as_user rm -f "$HOME_DIR"/there-*
    done
}
rank_2_is_awaited() {
    batchai job show --name "$1" --query usage -o json |
        jq -e '.awaitedRank.rank == 2 and .awaitedRank.node == "h2" and .awaitedRank.waitPercent < .waitPercent'
}
rank_2_is_named() {
    output=$(batchai job top "$1" --once --output json) || return
    jq -e '[.nodes[].ranks[] | select(.holdsUp) | .rank] == [2] and
        ([.nodes[].ranks[] | select(.rank != 2) | .waitPercent > 25] | all)' <<< "$output"
}
