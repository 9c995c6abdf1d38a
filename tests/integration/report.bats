#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# `batchai job events`, `job report`, and why a job waits in `job list`. The job of docs/report.md is
# the job of this suite, and the page's commands are run from the page.

bats_require_minimum_version 1.5.0
load lib

setup_file() {
    make_home report
    write_home site.lua << LUA
return {
  python_interpreter = "$PYTHON",
  environment = { PYTHONPATH = "$PREFIX/lib/batchai/python" },
}
LUA
    local file
    for file in train.py train.json; do file_of_page "$file" | write_home "$file"; done
    # Waits all the time, which needs no node.
    custom 1 true '{"begin": "now+1hour"}' | submit later
    dependency="afterok:$(slurm_id later)"
    custom 1 true "$(jq -n --arg dependency "$dependency" '{dependency: $dependency}')" | submit after
    # Is done beside what follows.
    commands_of_page > "$BATS_FILE_TMPDIR/commands"
    head -n 2 "$BATS_FILE_TMPDIR/commands" | run_commands
}

teardown_file() {
    cancel_jobs
    wait_until 60 nodes_idle 4 || return 1
    remove_home
}

batchai() { batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua" "$@"; }
slurm_id() { batchai job show --name "$1" --query slurmJobId --output tsv; }

# file_of_page FILE: the block of docs/report.md below the line that names it.
file_of_page() {
    awk -v file="\`$1\`:" '
        $0 == file { wanted = 1 }
        /^```/ && shown { exit }
        shown { print }
        /^```/ && wanted { shown = 1 }
    ' "$SOURCE/docs/report.md"
}

# commands_of_page: what is after "$ " in the blocks of the console.
commands_of_page() { sed -n '/^```console/,/^```$/s/^\$ //p' "$SOURCE/docs/report.md"; }

# run_commands: those on standard input, as alice in HOME_DIR, which is her home.
run_commands() {
    # shellcheck disable=SC2016 # for the inner shell
    as_user bash -c 'cd "$1" && export HOME=$1 BATCHAI_HOME=$1/records BATCHAI_SITE=$1/site.lua PATH=$2:$PATH
        exec bash -e -c "$3" < /dev/null' run "$HOME_DIR" "$PREFIX/bin" "$(cat)"
}

# custom NODES COMMAND [SLURM]: a job file with one rank on each node.
custom() {
    jq -n --arg logs "$HOME_DIR/logs" --argjson nodes "$1" --arg command "$2" --argjson slurm "${3:-null}" \
        '{properties: ({nodeCount: $nodes, stdOutErrPathPrefix: $logs,
            customMpiSettings: {commandLine: $command, processCount: $nodes}}
            + if $slurm then {slurm: $slurm} else {} end)}'
}
# submit NAME: the job file on standard input.
submit() { write_home "$1.json" && create "$1"; }

# Breaks when the page's commands fail, a node's own times are lost, the slow rank or the slow node
# is not found, or the numbers differ from what the job did.
@test "the report of the page names the slow node, the slow rank and what to change" {
    sed -n '3,$p' "$BATS_FILE_TMPDIR/commands" | run_commands > "$BATS_FILE_TMPDIR/printed"
    cat "$BATS_FILE_TMPDIR/printed"
    # The table, the chart and the advice.
    grep -E '^2[0-9T:-]+ +1 +phase preparation began' "$BATS_FILE_TMPDIR/printed"
    grep -E '^h3 +(│|\|) *p+' "$BATS_FILE_TMPDIR/printed"
    grep 'o outputs .*p preparation' "$BATS_FILE_TMPDIR/printed"
    grep 'Rank 2 on h3 was' "$BATS_FILE_TMPDIR/printed"
    run -0 --separate-stderr batchai job report train
    jq '{advice, steps}' <<< "$output"
    jq -e '.schema == "batchai-report/v1" and .job.executionState == "succeeded" and .job.ranks == 4
        and (.attempts | length) == 1 and (.attempts[0].nodes | map(.name)) == ["h1", "h2", "h3", "h4"]' <<< "$output"
    # Each node has times of its own.
    jq -e '[.attempts[0].nodes[] | {name, seconds: (.phases[] | select(.phase == "preparation").seconds)}]
        | (.[] | select(.name == "h3").seconds) as $slow
        | $slow >= 10 and ([.[] | select(.name != "h3").seconds] | max) < $slow' <<< "$output"
    jq -e 'all(.attempts[0].nodes[].phases[] | select(.phase == "ranks"); .ready != null)' <<< "$output"
    jq -e '([.advice[].code] | contains(["preparation", "slowNode", "slowRank"]))' <<< "$output"
    jq -e '(.steps.ranks | length) == 4
        and all(.steps.ranks[]; .steps > 50) and (.steps.ranks | max_by(.timesTheMedian).rank) == 2
        and (.steps.ranks[2].slowSince.step | . > 20 and . < 45)' <<< "$output"
}

# Breaks when the page of a job loads something or has a script, or when it is written to a place
# that is not a file.
@test "the page is complete in itself and only written to a file" {
    local page=$BATS_TEST_TMPDIR/report.html
    wait_for train
    batchai job report train --file - > "$page"
    [[ $(head -c 15 "$page") == '<!DOCTYPE html>' ]]
    grep "default-src 'none'" "$page"
    run ! grep -iE '<script|<link|<img|https?:|url\(|@import' "$page"
    grep '<h1>train</h1>' "$page"
    [[ $(stat -c %s "$page") -lt 500000 ]]
    [[ $(as_user stat -c %a "$HOME_DIR/report.html") == 644 ]]
    run -2 batchai job report train --file /dev/full
    run -2 batchai job report train --file "$HOME_DIR/logs"
    run -1 batchai job report train --file /usr/report.html
    run -2 batchai job report
    run -5 batchai job report nobody
}
wait_for() { batchai job wait --name "$1" 2> /dev/null || true; }

# Breaks when the first failure is not named with its rank, node and line, or when markup of a log
# reaches the page as markup.
@test "the report of a job that failed shows the first failure as text" {
    custom 2 'if [ "$SLURM_PROCID" = 1 ]; then echo "Error: </code><script>alert(1)</script>" >&2; exit 3; fi; sleep 30' |
        submit fails
    run -3 batchai job wait --name fails
    run -0 --separate-stderr batchai job report fails --query 'attempts[0].failure.[rank, node, exitCode, phase]' --output json
    [[ $(jq -c . <<< "$output") == '[1,"h2",3,"ranks"]' ]]
    run -0 --separate-stderr batchai job report fails --file -
    [[ $output == *'on rank 1 on node h2 in the phase ranks'* ]]
    [[ $output == *'&lt;script&gt;alert(1)&lt;/script&gt;'* && $output != *'<script'* ]]
    # There is no timeline, and the page says how to get one.
    [[ $output == *MPI_BRIDGE_TIMELINE* ]]
    run -0 --separate-stderr batchai job events fails --query "[?kind=='failure'].[node, rank]" --output tsv
    [[ $output == $'h2\t1' ]]
}

# Breaks when an event is printed twice or not at all, when the exit code of the job is lost, or when
# the command goes on after the job.
@test "events are followed until the job ends, with its exit code" {
    custom 1 'sleep 2; exit 7' | submit followed
    run -7 --separate-stderr batchai job events followed --follow
    echo "$output"
    [[ $output == *'submitted as Slurm job '* && $output == *'phase ranks began'* ]]
    [[ $output == *'the job has failed, ended by program, with exit code 7'* ]]
    [[ -z $(sort <<< "$output" | uniq -d) ]]
    [[ $output != *$'\x1b'* ]]
    run -2 batchai job events followed --follow --chart
    [[ $(batchai_with COLUMNS=50 job events followed --chart | wc -L) -le 80 ]]
    # UTF-8 only where the locale has it.
    run -0 batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua LC_ALL=C.UTF-8" job events followed --chart
    [[ $output == *│* ]]
    run -0 batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua LC_ALL=C" job events followed --chart
    run ! grep -P '[^\x00-\x7f]' <<< "$output"
}

# Breaks when the running state is taken for an end.
@test "a job that runs has a report as well" {
    custom 1 'sleep 600' | submit runs
    wait_until 60 has_phase runs ranks
    run -0 --separate-stderr batchai job report runs
    jq -e '.job.executionState == "running" and .job.end == null and .attempts[0].end == null
        and (.attempts[0].nodes[0].phases[-1] | .phase == "ranks" and .end == null)' <<< "$output"
    run -0 --separate-stderr batchai job report runs --file -
    [[ $output == *'The job has not ended.'* ]]
    batchai job terminate --name runs --yes
}
has_phase() { [[ $(batchai job events "$1" --query "[].text" --output tsv) == *"phase $2 began"* ]]; }

# Breaks when the columns of the Azure CLI change for scripts, or when a job that Slurm has no time for
# seems to start at once.
@test "job list says why jobs wait and when they may start" {
    local az=$PREFIX/libexec/batchai/az-drop-in/az
    wait_until 60 reason_is after Dependency
    run -0 --separate-stderr batchai job list --output table
    echo "$output"
    [[ ${lines[0]} =~ 'Exit code'\ +'Why It Waits'\ +'Expected Start'$ ]]
    [[ $output == *"the job's earliest start time has not come"*" 20"[0-9][0-9]-*T* ]]
    [[ $output == *"another job, which this one depends on, has not ended"*unknown* ]]
    run -0 --separate-stderr batchai job list --query "[?name=='later'].pendingReason.expectedStart" --output tsv
    [[ $output == 20* ]]
    # shellcheck disable=SC2016 # for the inner shell
    run -0 --separate-stderr as_user env BATCHAI_HOME="$HOME_DIR/records" "$az" batchai job list --output table
    [[ ${lines[0]} == *'Exit code' ]]
    # A job that waits has events, but no chart.
    run -0 --separate-stderr batchai job events after --output table
    [[ $output == *'waits: another job'*'expected start: unknown' ]]
    run -0 batchai job events after --chart
    [[ $output == 'batchai: the job has not started: another job'* ]]
    run -0 --separate-stderr batchai job report after --file -
    [[ $output == *'Why it waits'*'unknown'* ]]
}
reason_is() { [[ $(batchai job show --name "$1" --query pendingReason.reason --output tsv) == "$2" ]]; }
