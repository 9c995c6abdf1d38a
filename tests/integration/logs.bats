#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# What the ranks of a job print: their files, `batchai job logs`, and `batchai job create --follow`.
# docs/logs.md is a test of its own in quickstarts.bats.

bats_require_minimum_version 1.5.0
load lib

setup() {
    make_home "logs-$BATS_TEST_NUMBER"
}

teardown() {
    cancel_jobs
    wait_until 60 nothing_is_queued
    remove_home
}

# job NAME NODES RANKS COMMAND [SLURM]: NAME.json.
job() {
    jq -n --arg logs "$HOME_DIR/logs" --argjson nodes "$2" --argjson ranks "$3" --arg command "$4" \
        --argjson slurm "${5:-null}" '{properties: ({nodeCount: $nodes, stdOutErrPathPrefix: $logs,
            customMpiSettings: {commandLine: $command, processCount: $ranks}}
            + if $slurm then {slurm: $slurm} else {} end)}' | write_home "$1.json"
}

# run_job NAME …: as above; returns when it has ended.
run_job() {
    job "$@"
    create "$1"
    batchai job wait --name "$1" || true
}

logs_of() { as_user find "$HOME_DIR/logs" -type d -path "*/jobs/$1/*/stdouterr"; }

# printed TEXT NAME WORDS…: `job logs NAME WORDS` prints exactly TEXT.
printed() {
    local said
    said=$(batchai job logs "${@:2}"; echo .)
    diff <(printf '%s.\n' "$1") <(printf '%s\n' "$said")
}

five_are_there() { [[ $(batchai job logs uneven --merge | grep -c first) -eq 5 ]]; }

# Breaks when a rank is said to be on another node than it is on, or gets lines of another one.
@test "each line has the node and the rank that it comes from, in the order of time" {
    job uneven 3 5 'echo "$SLURMD_NODENAME:$SLURM_PROCID first"; until [ -e '"$HOME_DIR"'/go ]; do sleep 0.2; done
        echo "$SLURMD_NODENAME:$SLURM_PROCID second" >&2'
    create uneven
    wait_until 60 five_are_there
    as_user touch "$HOME_DIR/go"
    batchai job wait --name uneven
    run -0 --separate-stderr batchai job logs uneven --merge
    echo "$output"
    [[ ${#lines[@]} -eq 10 ]]
    local i
    for i in {0..9}; do
        [[ ${lines[i]} == h[1-3]:[0-4]" "*" "$( ((i < 5)) && echo first || echo second) ]]
        [[ ${lines[i]% * *} == $(cut -d' ' -f2 <<< "${lines[i]}") ]]
    done
    [[ $(cut -d' ' -f1 <<< "$output" | sort -u | xargs) == "h1:0 h1:1 h2:2 h2:3 h3:4" ]]
    run -0 --separate-stderr batchai job logs uneven --merge --stderr --rank 0,3-4
    [[ $(cut -d' ' -f1 <<< "$output" | sort | xargs) == "h1:0 h2:3 h3:4" ]]
    run -0 --separate-stderr batchai job logs uneven --node 'h[2-3]' --tail 1 --stdout
    [[ $output == $'==> h2:2 <==\nh2:2 first\n\n==> h2:3 <==\nh2:3 first\n\n==> h3:4 <==\nh3:4 first' ]]
    # The times of the lines are those of the launcher.
    run -0 --separate-stderr batchai job logs uneven --merge --since "$(date -u -d '+1 hour' +%FT%TZ)"
    [[ -z $output ]]
    run -0 --separate-stderr batchai job logs uneven --rank 1 --since 1h
    [[ $output == $'h1:1 first\nh1:1 second' ]]
}

# Breaks when bytes are lost, added or changed: those that are not text, a line that is longer than
# any buffer, and a last line without a newline.
@test "no byte is lost" {
    as_user bash -c "cd '$HOME_DIR' && head -c 5000000 /dev/urandom > bytes-0 &&
        head -c 3000000 /dev/zero | tr '\0' x > bytes-1 && printf 'no newline' > bytes-2 && : > bytes-3"
    run_job bytes 2 4 "cat $HOME_DIR/bytes-\$SLURM_PROCID; printf error-\$SLURM_PROCID >&2"
    local rank logs
    logs=$(logs_of bytes)
    for rank in 0 1 2 3; do
        batchai job logs bytes --stdout --rank "$rank" | cmp - <(as_user cat "$HOME_DIR/bytes-$rank")
        [[ $rank -eq 3 ]] || as_user cmp "$logs/ranks/1/stdout-$rank.txt" "$HOME_DIR/bytes-$rank"
        [[ $(as_user cat "$logs/ranks/1/stderr-$rank.txt") == "error-$rank" ]]
    done
    as_user test ! -e "$logs/ranks/1/stdout-3.txt"
    # Merged, they are all there as well, besides prefixes and the ends of lines.
    [[ $(as_user stat -c %s "$logs/stdout.txt") -eq 8000010 ]]
    [[ $(batchai job logs bytes --merge --stdout --rank 1 | tr -d -c x | wc -c) -eq 3000000 ]]
    # Each rank's output is kept once, besides the merged files.
    prints_nothing as_user find "$HOME_DIR/records" -name '*.std*-*.txt'
}

@test "the end of much output is found at once, and a reader may go away" {
    run_job much 1 2 'seq -f "%09.0f of rank $SLURM_PROCID" 1 300000'
    run -0 --separate-stderr batchai job logs much --tail 3 --rank 1
    [[ $output == $'000299998 of rank 1\n000299999 of rank 1\n000300000 of rank 1' ]]
    run -0 --separate-stderr batchai job logs much --merge --tail 250000
    [[ ${#lines[@]} -eq 250000 && ${lines[-1]} == h1:[01]" 000300000 of rank "[01] ]]
    [[ $(batchai job logs much --merge | wc -l) -eq 600000 ]]
    run batchai job logs much --merge --tail 0
    [[ $status -eq 0 && -z $output ]]
    # Services ignore SIGPIPE, and their children inherit that.
    local how
    for how in --default-signal=PIPE --ignore-signal=PIPE; do
        run bash -c "$MINICLUSTER exec -- env $how BATCHAI_HOME=$HOME_DIR/records $PREFIX/bin/batchai job logs much --rank 0 | head -n 1"
        [[ $output == "000000001 of rank 0" ]]
    done
}

# is_seen TEXT FILE: for wait_until.
is_seen() { as_user grep -q "$1" "$2"; }

@test "--follow shows lines while the job runs, and exits with its exit code" {
    job slow 2 2 'echo begun; until [ -e '"$HOME_DIR"'/go ]; do sleep 0.2; done; echo done; exit $((SLURM_PROCID * 7))'
    create slow
    as_user bash -c "cd '$HOME_DIR' && BATCHAI_HOME=\$PWD/records $PREFIX/bin/batchai job logs slow -f > seen 2> said; echo \$? > code" &
    wait_until 60 is_seen 'h2:1 begun' "$HOME_DIR/seen"
    as_user touch "$HOME_DIR/go"
    wait
    run as_user cat "$HOME_DIR/seen" "$HOME_DIR/said" "$HOME_DIR/code"
    echo "$output"
    [[ ${lines[-1]} == 7 && $output == *"Job failed with exit code 7"* ]]
    [[ $(as_user sort "$HOME_DIR/seen" | grep begun | xargs) == "h1:0 begun h2:1 begun" ]]
}

# typed KEYS… -- WORDS…: `batchai WORDS` on a terminal. Each KEY is typed once the text before its "="
# has been printed; what was printed is in $output, and its last line says the exit code.
typed() {
    run timeout 120 "$MINICLUSTER" exec -- env "BATCHAI_HOME=$HOME_DIR/records" python3 - \
        "$PREFIX/bin/batchai" "$@" << 'SCRIPT'
import os
import pty
import sys

program, *words = sys.argv[1:]
cut = words.index("--")
keys = [word.rsplit("=", 1) for word in words[:cut]]
child, terminal = pty.fork()
if child == 0:
    os.execv(program, [program, *words[cut + 1 :]])
said = b""
begin = 0
while True:
    try:
        got = os.read(terminal, 4096)
    except OSError:
        break
    if not got:
        break
    said += got
    while keys and said.find(keys[0][0].encode(), begin) >= 0:
        begin = len(said)
        os.write(terminal, keys.pop(0)[1].encode().decode("unicode_escape").encode())
sys.stdout.buffer.write(said.replace(b"\r", b""))
print("\nexit code", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
SCRIPT
}

@test "Ctrl-C asks what is to become of the job" {
    job endless 1 2 'echo begun; sleep 600'
    typed 'begun=\x03' '(l/e)=what\n' '(l/e)=l\n' -- job create --name left -f "$HOME_DIR/endless.json" --follow
    [[ $output == *"the job continues (running)"*"batchai job logs left --follow"*"exit code 130"* ]]
    wait_until 60 state_is left running
    typed 'begun=\x03' '(l/e)=\x03' -- job create --name twice -f "$HOME_DIR/endless.json" --follow
    [[ $output == *"the job continues"*"exit code 130"* ]]
    wait_until 60 state_is twice running
    typed 'begun=\x03' '(l/e)=e\n' -- job create --name ended -f "$HOME_DIR/endless.json" --follow
    [[ $output == *"ending the job"*"failed"* && $output != *"exit code 0"* ]]
    state_is ended failed
    # Prefixes are coloured on a terminal.
    [[ $output == *$'\x1b['*"h"[1-4]":0"*$'\x1b[0m'*" begun"* ]]
    # `job logs` leaves the job alone without a question.
    typed 'begun=\x03' -- job logs left --follow
    [[ $output == *"the job continues"*"exit code 130"* && $output != *"(l/e)"* ]]
}

@test "each attempt of a requeued job keeps its own files" {
    job again 1 2 'echo "attempt $((${SLURM_RESTART_COUNT:-0} + 1))"; if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then sleep 600; fi'
    create again
    local id
    id=$(batchai job show --name again --query slurmJobId --output tsv)
    wait_until 60 batchai job logs again --attempt 1 --rank 0
    as_user bash -c "cd '$HOME_DIR' && BATCHAI_HOME=\$PWD/records $PREFIX/bin/batchai job logs again -f > seen 2> said; echo \$? > code" &
    wait_until 60 is_seen ':0 attempt 1' "$HOME_DIR/seen"
    wait_until 60 is_seen ':1 attempt 1' "$HOME_DIR/seen"
    as_root_on login scontrol requeue "$id"
    start_again "$id"
    wait
    run as_user cat "$HOME_DIR/seen" "$HOME_DIR/said" "$HOME_DIR/code"
    echo "$output"
    [[ $output == *"the ranks were started again; their files are in ranks/2"* && ${lines[-1]} == 0 ]]
    # Slurm and the shells of the ranks may say more when they are ended.
    run -0 lines_like ':0 attempt' as_user sort "$HOME_DIR/seen"
    [[ $output == "h"[1-4]":0 attempt 1"$'\n'"h"[1-4]":0 attempt 2" ]]
    printed $'attempt 2\n' again --rank 1
    # The shell of a rank that is ended may say so in the rank's standard error.
    run -0 lines_unlike '^Terminated( |$)|CANCELLED' batchai job logs again --rank 1 --attempt 1
    [[ $output == "attempt 1" ]]
    run -5 batchai job logs again --attempt 3
    [[ $output == *"no rank was started in attempt 3"* ]]
    [[ $(as_user cat "$(logs_of again)/ranks/1/stdout-0.txt") == "attempt 1" ]]
    [[ $(as_user cat "$(logs_of again)/ranks/2/stdout-0.txt") == "attempt 2" ]]
}

@test "the tasks of an array job have logs of their own" {
    run_job array 1 2 'echo "task $SLURM_ARRAY_TASK_ID"' '{"array": "1,3"}'
    wait_until 60 nothing_is_queued
    printed $'task 3\n' array --task 3 --rank 1
    run -0 --separate-stderr batchai job logs array
    [[ $output == $'==> task 1, '*$':0 <==\ntask 1\n\n==> task 1, '*$':1 <==\ntask 1\n\n==> task 3, '* ]]
    run -5 batchai job logs array --task 2
    [[ $output == *"its tasks are 1,3"* ]]
    printed $'task 1\n' array --task 1 --rank 0 --follow
    run -2 batchai job logs array --follow
    [[ $output == *"choose one with --task"* ]]
    run -2 batchai job create --name follows -f array.json --follow
    [[ $output == *"an array job cannot be followed"* ]]
    run -5 batchai job show --name follows
}

# Breaks when what a killed launcher has not copied is lost.
@test "the last words are there though the launcher was killed" {
    job killed 1 2 'echo begun; until [ -e '"$HOME_DIR"'/go ]; do sleep 0.2; done; echo last words; touch '"$HOME_DIR"'/said-$SLURM_PROCID; sleep 600'
    create killed
    wait_until 60 batchai job logs killed --rank 1
    local id host
    id=$(batchai job show --name killed --query slurmJobId --output tsv)
    host=$(as_user squeue -h -j "$id" -o %B)
    as_root_on "$host" pkill -STOP -u alice -f 'batchai run'
    as_user touch "$HOME_DIR/go"
    wait_until 60 as_user ls "$HOME_DIR/said-0" "$HOME_DIR/said-1"
    as_root_on "$host" pkill -KILL -u alice -f 'batchai run'
    as_user scancel "$id"
    wait_until 60 state_is killed failed
    printed $'begun\nlast words\n' killed --rank 1
    run -0 --separate-stderr batchai job logs killed --merge
    [[ $(grep -c 'last words' <<< "$output") -eq 2 ]]
}

# has_logs NAME: for wait_until; the job's directory of logs is there.
has_logs() { [[ -n $(logs_of "$1") ]]; }

# has_lines COUNT FILE: for wait_until.
has_lines() { [[ $(as_user cat "$2" | wc -l) -eq $1 ]]; }

# Breaks when what follows "> /dev/stdout" or "tee /dev/stderr" is lost, because the file that the
# shell has made shorter is looked at only from where the copy has got.
@test "a program that truncates its output loses nothing that was copied, and nothing after that" {
    local ranks logs suffix='' warnings=2 prep="seq 50; until [ -e $HOME_DIR/go-prep ]; do sleep 0.2; done; echo x > /dev/stdout; echo prepared"
    for ranks in 1 2; do
        # shellcheck disable=SC2016 # for the ranks' shell
        job before "$ranks" "$ranks" 'seq 200; seq 300 >&2; until [ -e '"$HOME_DIR/go$ranks"' ]; do sleep 0.2; done
            echo after > /dev/stdout; echo oops | tee /dev/stderr > /dev/null; echo end; echo last >&2'
        as_user cat "$HOME_DIR/before.json" |
            jq --arg prep "$prep" '.properties.jobPreparation = {commandLine: $prep}' | write_home "cut$ranks.json"
        # Its nodes are h1, and h2 for two ranks.
        wait_until 60 nothing_is_queued
        create "cut$ranks"
        wait_until 60 has_logs "cut$ranks"
        # srun itself writes what a single task prints.
        if [[ $ranks -eq 2 ]]; then suffix=-h1 warnings=3; fi
        wait_until 60 has_lines 50 "$(logs_of "cut$ranks")/stdout-job_prep$suffix.txt"
        as_user touch "$HOME_DIR/go-prep"
        logs=$(logs_of "cut$ranks")
        wait_until 60 has_lines $((200 * ranks)) "$logs/stdout.txt"
        wait_until 60 has_lines $((300 * ranks)) "$logs/stderr.txt"
        as_user touch "$HOME_DIR/go$ranks"
        run batchai job wait --name "cut$ranks"
        echo "$output"
        [[ $status -eq 0 && $output == *"warning: the ranks' output: stdout.txt of 0"*" was truncated by the program"* ]]
        printf '%s\n' "$(seq 200)" after end | diff - <(batchai job logs "cut$ranks" --stdout --rank 0)
        printf '%s\n' "$(seq 300)" oops last | diff - <(batchai job logs "cut$ranks" --stderr --rank 0)
        has_lines $((202 * ranks)) "$logs/stdout.txt"
        has_lines $((302 * ranks)) "$logs/stderr.txt"
        printf '%s\n' "$(seq 50)" x prepared | diff - <(as_user cat "$logs/stdout-job_prep$suffix.txt")
        as_user grep -q "warning: the ranks' output: stderr.txt of 0.* was truncated" "$logs/execution$suffix.log"
        [[ $(batchai job show --name "cut$ranks" --query 'length(executionInfo.warnings)') == "$warnings" ]]
        as_user rm "$HOME_DIR/go-prep"
    done
}

# Breaks when nothing of a line is seen until it is complete, or a line is torn in the common file.
@test "the progress bars of several ranks are seen while they run, each after its rank" {
    # shellcheck disable=SC2016 # for the ranks' shell
    job bars 2 2 'printf "\r10 %% of $SLURM_PROCID" >&2; until [ -e '"$HOME_DIR"'/go ]; do sleep 0.2; done
        printf "\r20 %% of $SLURM_PROCID\n" >&2'
    create bars
    as_user bash -c "cd '$HOME_DIR' && BATCHAI_HOME=\$PWD/records $PREFIX/bin/batchai job logs bars -f > seen 2> said" &
    wait_until 60 is_seen 'h1:0 10 % of 0' "$HOME_DIR/seen"
    wait_until 60 is_seen 'h2:1 10 % of 1' "$HOME_DIR/seen"
    [[ $(as_user cat "$(logs_of bars)/stderr.txt") == "" ]]
    as_user touch "$HOME_DIR/go"
    wait
    as_user grep -q 'h2:1 20 % of 1$' "$HOME_DIR/seen"
    [[ $(as_user sort "$(logs_of bars)/stderr.txt") == $'\r10 % of 0\r20 % of 0\n\r10 % of 1\r20 % of 1' ]]
    printf '\r10 %% of 1\r20 %% of 1\n' | cmp - <(batchai job logs bars --rank 1)
}

# Breaks when a job whose logs have been cut looks like any other.
@test "a full disk of the logs is told by job wait and job show, and job logs has everything" {
    local host full=/mnt/full-$$
    for host in h1 h2 h3 h4; do
        as_root_on "$host" sh -c "mkdir -p $full && mount -t tmpfs -o size=128k,mode=777 full $full"
    done
    job before 1 2 'seq -f "%09.0f of rank $SLURM_PROCID" 1 20000'
    as_user cat "$HOME_DIR/before.json" | jq --arg to "$full" '.properties.stdOutErrPathPrefix = $to' | write_home full.json
    create full
    run batchai job wait --name full
    echo "$output"
    # The launcher may still close its files.
    for host in h1 h2 h3 h4; do wait_until 60 as_root_on "$host" umount "$full"; done
    as_root_on login rmdir "$full"
    [[ $status -eq 0 ]]
    [[ $output == *"warning: the ranks' output is not complete in the logs: stdout.txt: No space left on device"* ]]
    [[ $(batchai job show --name full --query 'executionInfo.warnings[0]') == *"No space left on device"* ]]
    [[ $(batchai job logs full --merge | wc -l) -eq 40000 ]]
}

# Breaks when bad input is not refused by one clear message.
@test "what is wrong is said once, with what there is" {
    run_job few 2 2 'echo fine'
    run -5 batchai job logs few --rank 1,7
    [[ $output == $'batchai: error: --rank: the job has no rank 7\nhint: its ranks are 0 to 1' ]]
    run -5 batchai job logs few --node h9
    [[ $output == *"the job has no rank on a node h9"*"its ranks are on h1, h2" ]]
    run -2 batchai job logs few --rank 3-1
    [[ $output == *'"3-1" is not a list of ranks'* ]]
    run -2 batchai job logs few --tail -1
    [[ $output == *'--tail: "-1" is not a number from 0 on'* ]]
    run -2 batchai job logs few --attempt 0
    [[ $output == *'--attempt: "0" is not a number above 0'* ]]
    run -2 batchai job logs few --since yesterday
    [[ $output == *'"yesterday" is not a time'* ]]
    run -2 batchai job logs
    [[ $output == *"name one job"* ]]
    run -5 batchai job logs nosuch
    run -2 batchai job create -f few.json --dry-run --follow
    run -0 batchai job file stream --job few --file-name stdout-0.txt
    [[ $output == *'not found for the completed job.'*"hint: there are "*"ranks, stderr.txt, stdout.txt" ]]
    # Removed files are missed, and the others shown.
    as_user rm "$(logs_of few)/ranks/1/stdout-0.txt"
    run -0 batchai job logs few --merge
    [[ $output == *"h2:1 fine"* && $output == *"5 bytes that the ranks have printed are no longer in "* ]]
}
