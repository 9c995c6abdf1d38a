#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# What a job uses: the samples of its nodes, `batchai job top`, `job show`, and `batchai metrics`.
# docs/usage.md is a test of its own in quickstarts.bats. The test cluster has no cgroups of Slurm's.

bats_require_minimum_version 1.5.0
load lib
load small_image

setup() {
    make_home "usage-$BATS_TEST_NUMBER"
}

teardown() {
    cancel_jobs
    wait_until 60 nothing_is_queued
    remove_home
}

# job NAME NODES RANKS COMMAND [MORE]: NAME.json; MORE is a JSON object of further properties.
job() {
    jq -n --arg logs "$HOME_DIR/logs" --argjson nodes "$2" --argjson ranks "$3" --arg command "$4" \
        --argjson more "${5:-null}" '{properties: ({nodeCount: $nodes, stdOutErrPathPrefix: $logs,
            customMpiSettings: {commandLine: $command, processCount: $ranks}} + $more)}' |
        write_home "$1.json"
}

# top NAME FILTER: whether jq's FILTER is true of what `job top` says; for wait_until.
top() {
    local said
    said=$(batchai job top "$1" --once --output json) || return
    jq -e "$2" <<< "$said" || { echo "$said"; return 1; }
}

# records NAME: the files in which the nodes note what the job uses.
records() { as_user find "$HOME_DIR/records" -path "*/jobs/$1/*" -name '*.usage-*'; }

samplers_on() { lines_like batchai-usage as_root_on "$1" ps -eo comm=; }

# Breaks when ranks, nodes, CPU time or memory are mixed up, when a process in a PID namespace of its
# own is not seen, when the records lack a node, or when the sampler outlives a cancelled job.
@test "ranks that burn CPU, fill memory and sleep are told apart, live and afterwards" {
    job three 2 3 'case $SLURM_PROCID in
        0) exec unshare --user --map-root-user --pid --fork --kill-child bash -c "while :; do :; done" ;;
        1) head -c 200M /dev/zero | tail | sleep 300 ;;
        2) sleep 300 ;;
    esac'
    create three
    wait_until 60 state_is three running
    # shellcheck disable=SC2016 # for jq
    wait_until 120 top three '[.nodes[] | {node, rank: .ranks[]}] as $all
        | ([$all[].rank] | sort_by(.rank)) as $ranks
        | ($all | map("\(.node):\(.rank.rank)") | sort) == ["h1:0", "h1:1", "h2:2"]
        and ($ranks[0].cpuPercent > 5 and $ranks[0].cpuPercent > 5 * ($ranks[2].cpuPercent + 0.5))
        and $ranks[1].memoryBytes > 200e6 and $ranks[0].memoryBytes < 60e6 and $ranks[2].memoryBytes < 60e6
        and ($ranks | all(.threads >= 1))'
    # Whoever sorts by memory sees rank 1 first, in a table without a terminal.
    run -0 --separate-stderr batchai job top --name three --once --sort memory
    echo "$output"
    [[ $output == *$'\n  Rank  Node '*$'\n     1  h1 '*$'\n     '[02]' '* && $output != *$'\e'* ]]
    run -0 --separate-stderr batchai job top three --query 'nodes[].node' --output tsv
    [[ $output == $'h1\nh2' ]]

    # Metrics of the same job.
    batchai metrics --output "$HOME_DIR/alice.prom"
    as_user cat "$HOME_DIR/alice.prom" > "$BATS_TEST_TMPDIR/alice.prom"
    "$PYTHON" "$SOURCE/tests/integration/prometheus_text.py" "$BATS_TEST_TMPDIR/alice.prom" |
        jq -s -e 'map({key: ([.name] + (.labels | [.state, .job] | map(select(.)))) | join(":"), value}) | from_entries
            | .["batchai_jobs:running"] == 1 and .["batchai_job_memory_peak_bytes:three"] > 200e6
            and .["batchai_job_nodes:three"] == 2 and .batchai_queue_seconds_count == 1
            and .["batchai_job_cpu_seconds_total:three"] > 0'
    [[ $(as_user stat -c %a "$HOME_DIR/alice.prom") == 644 ]]
    prints_nothing as_user find "$HOME_DIR" -maxdepth 1 -name '.alice.prom*'

    [[ $(records three | grep -c 'usage-[0-9]*-h[12]\.txt$') -eq 2 ]]
    batchai job terminate --name three --yes
    wait_until 60 nothing_is_queued
    local host
    for host in h1 h2; do
        wait_until 60 prints_nothing samplers_on "$host"
        wait_until 60 prints_nothing processes_of_user_on "$host"
    done
    prints_nothing lines_like '\.live$' records three
    run -0 --separate-stderr batchai job show --name three
    jq -e '.usage | .source == "samples" and .memoryPeakBytes > 200e6 and .memoryPeakNode == "h1"
        and .cpuSeconds > 0.5 and .cpuSecondsAllocated >= .cpuSeconds and .queueSeconds >= 0
        and (.advice | length) >= 1' <<< "$output"
    run -1 batchai job top three --once
    [[ $output == *"the job has ended"* ]]
    # The record tells the ranks apart, too.
    local file
    file=$(records three | grep 'h1\.txt$')
    as_user cat "$file"
    [[ $(as_user stat -c %a "$file") == 600 ]]
    as_user grep -q ' r=0:[0-9.]*:[0-9]*,:[0-9.]*:2[0-9][0-9]$' "$file"
}

# Breaks when the sampler is inside the container, where the ranks' own /proc or none is.
@test "ranks in a container are seen" {
    local root=$BATS_TEST_TMPDIR/root
    make_root "$root"
    pack "$root" "/shared/usage-test.sqsh"
    job boxed 1 2 'if [ $SLURM_PROCID = 1 ]; then while :; do :; done; fi; sleep 300' \
        '{"containerSettings": {"imageSourceRegistry": {"image": "/shared/usage-test.sqsh"}},
          "environmentVariables": [{"name": "BATCHAI_INJECT", "value": "0"}]}'
    create boxed
    wait_until 60 state_is boxed running
    wait_until 120 top boxed '.nodes[0].ranks | sort_by(.rank)
        | .[1].cpuPercent > 5 and .[1].cpuPercent > 5 * (.[0].cpuPercent + 0.5)'
    batchai job terminate --name boxed --yes
    wait_until 60 nothing_is_queued
    wait_until 60 prints_nothing samplers_on h1
    wait_until_clean h1
    as_root_on login rm -f /shared/usage-test.sqsh
}

# Breaks when the steps of preparation are not sampled or are taken for ranks, when a job cannot turn
# the samples off, and when a mistake in the setting is not reported.
@test "preparation is sampled, and a job can turn the samples off" {
    # Each ends when it has been sampled on both nodes, however late that is.
    sampled() { echo "sleep 2; until [ \$(find $HOME_DIR/records -name '1.$1usage-*-h[12].txt' | wc -l) -eq 2 ]; do sleep 0.2; done"; }
    job quick 2 2 "$(sampled '')" \
        "$(jq -n --arg command "$(sampled preparation.)" '{jobPreparation: {commandLine: $command}}')"
    create quick
    batchai job wait --name quick
    [[ $(records quick | grep -cE '/1\.preparation\.usage-[0-9]+-h[12]\.txt$') -eq 2 ]]
    [[ $(records quick | grep -cE '/1\.usage-[0-9]+-h[12]\.txt$') -eq 2 ]]
    run -0 --separate-stderr batchai job show --name quick
    jq -e '.usage | .preparationSeconds >= 2 and (.advice[0] | test("too short to judge"))' <<< "$output"
    job off 1 1 'sleep 300' '{"environmentVariables": [{"name": "BATCHAI_USAGE_INTERVAL", "value": "0"}]}'
    create off
    wait_until 60 state_is off running
    wait_until 60 batchai job logs off
    prints_nothing records off
    run -1 batchai job top off --once
    echo "$output"
    [[ $output == *"BATCHAI_USAGE_INTERVAL"* ]]
    cancel_jobs
    job wrong 1 1 'true' '{"environmentVariables": [{"name": "BATCHAI_USAGE_INTERVAL", "value": "often"}]}'
    create wrong
    batchai job wait --name wrong
    run -0 --separate-stderr batchai job file stream --job wrong --file-name execution.log
    [[ $output == *'BATCHAI_USAGE_INTERVAL is "often"'* ]]
}

# Breaks when the sampler or a reader follows a link that a job puts in place of a record, when what a
# job writes into a record reaches the terminal or stops the commands, and when others can read it.
@test "links and damaged records do no harm, and others read nothing" {
    as_user bash -c "echo precious > '$HOME_DIR/precious'"
    # The number of the ranks' step is easily guessed.
    job sly 1 1 'until f=$(find $RECORDS -name "1.usage-*-h1.txt" -type f) && [ -n "$f" ]; do sleep 0.2; done
        echo "@99999 cpu=nan" >> $f
        printf "@3 \033]0;owned\a mem=1\n\0\377@\n" >> $f; sleep 2' \
        '{"jobPreparation": {"commandLine": "for i in 0 1 2 3 4; do ln -s '"$HOME_DIR"'/precious $RECORDS/1.usage-$i-h1.txt; done"}}'
    local records
    records=$HOME_DIR/records/groups/default/workspaces/default/experiments/default/jobs/sly/attempts
    as_user sed -i "s|\$RECORDS|$records|g" "$HOME_DIR/sly.json"
    create sly
    batchai job wait --name sly
    [[ $(as_user cat "$HOME_DIR/precious") == precious ]]
    run -0 --separate-stderr batchai job show --name sly
    [[ $output != *$'\e'* && $output != *$'\a'* ]]
    jq -e '.usage.source == "samples"' <<< "$output"
    run as_bob find "$records"
    [[ $status -ne 0 && $output == *"Permission denied"* ]]
    run as_bob "$PREFIX/bin/batchai" job top sly --once
    [[ $status -eq 5 ]]
}

cpu_seconds_of() { batchai metrics 2> /dev/null | sed -n "s/^batchai_job_cpu_seconds_total{.*job=\"$1\".*} //p"; }
cpu_is_above() { awk -v seconds="$(cpu_seconds_of "$1")" -v least="$2" 'BEGIN { exit !(seconds > least) }'; }
tasks_left() { [[ $(as_user squeue -h -r -n "$1" -o %K) == "$2" ]]; }

# Breaks when the tasks of an array job are left out, or when a counter goes back because one has ended.
@test "the metrics of an array job are those of all its tasks" {
    job tasks 1 1 "if [ \$SLURM_ARRAY_TASK_ID = 1 ]; then (ulimit -t 4; while :; do :; done) || true
        else until [ -e $HOME_DIR/end-tasks ]; do sleep 0.2; done; fi" '{"slurm": {"array": "1-2"}}'
    create tasks
    wait_until 120 cpu_is_above tasks 2
    wait_until 120 tasks_left tasks 2
    cpu_is_above tasks 2
    as_user touch "$HOME_DIR/end-tasks"
    batchai job wait --name tasks
    run -0 --separate-stderr batchai metrics
    [[ $output =~ 'batchai_attempts{user="alice",ended_by="'[a-z]*'"} '[2-9] ]]
}

# Breaks when the nodes do not learn what memory the job has: its steps have none of Slurm's variables.
@test "the memory that the job has is noted, whether it is for a node or a CPU" {
    noted() { echo "until find $HOME_DIR/records -path '*/jobs/$1/*' -name '*.usage-*' | grep -q .; do sleep 0.2; done"; }
    job node 1 1 "$(noted node)" '{"slurm": {"mem": "600M"}}'
    job cpu 1 1 "$(noted cpu)"
    local name words
    for name in node cpu; do
        words=()
        [[ $name == node ]] || words=(-- --mem-per-cpu=300M)
        batchai job create --name "$name" --config-file "$name.json" --output none "${words[@]}"
        batchai job wait --name "$name"
        run -0 as_user grep -h memory= "$(records "$name")"
        echo "$name: $output"
        [[ $output =~ cpus=([0-9]+)\ memory=([0-9]+) ]]
        if [[ $name == cpu ]]; then
            [[ ${BASH_REMATCH[2]} -eq $((300 * BASH_REMATCH[1])) ]]
        else
            [[ ${BASH_REMATCH[2]} -eq 600 ]]
        fi
    done
}

# Breaks when a mistake on the command line is not one clear message.
@test "mistakes have one message" {
    run -2 batchai job top
    [[ $output == *"name one job"* ]]
    run -5 batchai job top nosuch
    run -2 batchai job top x --sort size
    [[ $output == *"node, rank, cpu, memory, read, write and network"* ]]
    run -2 batchai job top x --interval 0
    run -5 batchai metrics --output "$HOME_DIR/no/such/directory/x.prom"
    # Nobody has made anything yet, so there are no jobs.
    run -0 --separate-stderr batchai metrics
    [[ $output == *'batchai_jobs{user="alice",state="running"} 0'* ]]
}
