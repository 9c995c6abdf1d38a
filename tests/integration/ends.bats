#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Who or what ended a job: each end is provoked for real, and `job show`, `job list` and `job wait`
# tell it alike.

bats_require_minimum_version 1.5.0
load lib

# The jobs run beside one another, so that the suite takes little longer than the time limit that
# one of them runs into: Slurm's shortest is a minute.
setup_file() {
    export HOME_DIR="/home/alice/ends-$$"
    as_user mkdir -p "$HOME_DIR"
    as_root_on login cat /etc/slurm/slurm.conf > "$BATS_FILE_TMPDIR/slurm.conf"
    # Where no control groups limit memory, Slurm can look at what the processes of a step use.
    # slurmctld refuses to do both.
    local memory_kill=()
    as_root_on login grep -qs '^ConstrainRAMSpace=yes' /etc/slurm/cgroup.conf ||
        memory_kill=('JobAcctGatherParams=OverMemoryKill')
    add_to_slurm_conf "${memory_kill[@]}" \
        'PartitionName=small Nodes=h[1-4] DefMemPerNode=300 PreemptMode=OFF State=UP'
    for partition in main small requeued cancelled; do
        site_lua <<< "return {default_partition = \"$partition\"}" | write_home "$partition.lua"
    done
    site_lua <<< 'return {storage_accounts = { site = {file_share_directory = "/nowhere/%s"}}}' |
        write_home broken.lua
    sleeper '"constraints": {"maxWallClockTime": "PT1M"}' | submit limit
    sleeper | submit cancelled
    sleeper | submit preempted requeued
    sleeper | submit preempted-for-good cancelled
    for job in limit cancelled preempted preempted-for-good; do wait_until 60 ranks_run "$job"; done

    as_user scancel "$(slurm_id cancelled)"
    as_user sbatch --quiet --partition=urgent --exclusive --nodes=2 --output=/dev/null \
        --nodelist="$(nodes_of preempted),$(nodes_of preempted-for-good)" --wrap 'sleep 2'
    wait_until 60 attempt_ended preempted-for-good

    sleeper | submit requeued
    wait_until 60 ranks_run requeued
    as_root_on login scontrol requeue "$(slurm_id requeued)"
    # Else both would wait for two minutes.
    for job in preempted requeued; do
        start_again "$(slurm_id "$job")"
        wait_until 60 ranks_run "$job"
        batchai job terminate --name "$job" --yes
    done
}

# Later suites use the same slurm.conf. bats does not end teardown_file at a command that fails.
teardown_file() {
    local saved=$BATS_FILE_TMPDIR/slurm.conf
    end_jobs || return
    [[ -s $saved ]] && put "$saved" /etc/slurm/slurm.conf &&
        as_root_on login scontrol reconfigure || return 1
    wait_until 60 nodes_idle 4 || return 1
    as_user rm -rf "$HOME_DIR"
}

# add_to_slurm_conf LINE…: until the end of the suite.
add_to_slurm_conf() {
    printf '%s\n' "$@" | as_root_on login bash -c 'cat >> /etc/slurm/slurm.conf'
    as_root_on login scontrol reconfigure
}

# batchai WORDS…: in the suite's own home, with the site of $SITE; standard input passes through.
batchai() {
    as_user bash -c 'export BATCHAI_HOME=$1/records BATCHAI_SITE=$1/$2.lua; cd "$1"; shift 2
        exec "$@"' batchai "$HOME_DIR" "${SITE:-main}" "$PREFIX/bin/batchai" "$@"
}

# submit NAME [PARTITION]: the job file on standard input.
submit() {
    as_user sh -c "cat > $HOME_DIR/$1.json"
    SITE=${2:-main} batchai job create --name "$1" --config-file "$1.json" --output none
}

# job_with KEYS COMMAND [NODES]
job_with() {
    jq -n --argjson more "{$1}" --arg command "$2" --argjson nodes "${3:-1}" '{properties: ({
        nodeCount: $nodes,
        stdOutErrPathPrefix: "$AZ_BATCHAI_JOB_TEMP",
        customMpiSettings: {commandLine: $command}} + $more)}'
}
sleeper() { job_with "${1:-}" 'exec sleep 300' "${2:-1}"; }

show() { batchai job show --name "$1" --output json; }
slurm_id() { show "$1" | jq -er .slurmJobId; }
nodes_of() { as_user squeue -h -j "$(slurm_id "$1")" -o %N; }
waits() { [[ $(as_user squeue -h -j "$(slurm_id "$1")" -o %T) == PENDING ]]; }
attempt_ended() { show "$1" | jq -e '.attempts[-1].endTime != null' > /dev/null; }
ranks_run() {
    local id
    id=$(slurm_id "$1") &&
        [[ $(as_user squeue -h -s -j "$id" -o %j) == *sleep* || $(as_user squeue -h -s -j "$id" -o %i) == *.1* ]]
}

# is_forgotten ID: by slurmctld. A list of all jobs leaves those out that are about to be forgotten.
is_forgotten() { [[ $(as_user squeue -h -t all -j "$1" 2>&1) == *"Invalid job id"* ]]; }

# ended_by NAME WHO CODE: so says job show; and job list and job wait use its very words.
ended_by() {
    local shown listed
    run batchai job wait --name "$1"
    [[ $status -ne 0 ]]
    shown=$(show "$1" | jq -er '.executionInfo.errors[0].message') || return 1
    show "$1" | jq -e --arg who "$2" --arg code "$3" '.attempts[-1].endedBy == $who
        and .attempts[-1].message == .executionInfo.errors[0].message
        and .executionInfo.errors[0].code == $code
        and any(.executionInfo.errors[0].details[]; .name == "EndedBy" and .value == $who)' ||
        { show "$1"; return 1; }
    listed=$(batchai job list --output json |
        jq -er --arg name "$1" '.[] | select(.name == $name) | .executionInfo.errors[0].message')
    [[ $listed == "$shown" ]]
    [[ $output == *"Error message: $shown"* ]]
}

# Breaks when an end that only Slurm decides is taken for the user's.
@test "a job that runs into its time limit says so" { ended_by limit timeLimit JobTimedOut; }

@test "a job whose nodes a job of higher priority took says so" {
    ended_by preempted-for-good preemption JobPreempted
}

@test "scancel is told as the user's" { ended_by cancelled user JobTerminated; }

# Breaks when the attempts before the last one are lost, or not told by their ends.
@test "a job that was preempted and ran again shows both attempts" {
    show preempted | jq -e '[.attempts[] | [.attempt, .endedBy]]
        == [[1, "preemption"], [2, "user"]]'
    ended_by preempted user JobTerminated
}

@test "an administrator's requeue is told as such, and job terminate as the user's" {
    show requeued | jq -e '[.attempts[] | [.attempt, .endedBy]] == [[1, "requeue"], [2, "user"]]'
    ended_by requeued user JobTerminated
}

@test "a program's own failure is its own" {
    job_with '' 'echo "error: boom" >&2; exit 7' | submit failing
    ended_by failing program JobFailed
}

@test "a failed preparation is told as such" {
    job_with '"jobPreparation": {"commandLine": "exit 5"}' true | submit unprepared
    ended_by unprepared preparation JobPreparationFailed
}

@test "storage that cannot be mounted is told as such" {
    job_with '"mountVolumes": {"azureFileShares": [{"relativeMountPath": "share",
        "azureFileUrl": "https://site.file.core.windows.net/gone"}]}' true | submit unmounted broken
    ended_by unmounted storage AZFMountError
}

@test "a job that lost a node says so and runs again" {
    sleeper '' 2 | submit bereft
    wait_until 60 ranks_run bereft
    local node
    node=$(as_user scontrol show hostnames "$(nodes_of bereft)" | tail -n 1)
    kill_slurmd "$node"
    wait_until 60 waits bereft
    as_root_on "$node" bash -c 'pkill -KILL slurmstepd; pkill -KILL -u alice; true'
    start_slurmd "$node"
    show bereft | jq -e '.attempts[0].endedBy == "lostNode"'
    batchai job terminate --name bereft --yes
}

# Breaks when what Slurm says of a step that it ends for its memory is not understood.
@test "a job that takes more memory than it was given says so" {
    job_with '' "exec python3 -c 'import time; taken = bytearray(500 << 20); time.sleep(300)'" |
        submit greedy small
    ended_by greedy memory JobOutOfMemory
}

# Breaks when accounting's "CANCELLED by" is not read. The queue does not know who cancelled a job,
# so it must forget the job first. It forgets those of the other tests as well, so this is nearly the last.
# A slurmctld that starts again, as it does for new settings from 23.11 on, tells accounting of the end
# once more, without who it was.
@test "a cancellation by somebody else is told as such" {
    add_to_slurm_conf 'MinJobAge=2'
    sleeper | submit by-root
    wait_until 60 ranks_run by-root
    as_root_on login scancel "$(slurm_id by-root)"
    wait_until 60 is_forgotten "$(slurm_id by-root)"
    ended_by by-root administrator JobCancelled
}

accounting_answers() { as_user sacct -X -n; }

# Breaks when an outage of accounting hides jobs about which nobody needs to ask it.
@test "without accounting, only jobs are left out of a list whose end nobody else knows" {
    add_to_slurm_conf 'MinJobAge=2'
    sleeper | as_user sh -c "cat > $HOME_DIR/unseen.json"
    batchai job create --name unseen --config-file unseen.json --output none -- --hold
    local id
    id=$(slurm_id unseen)
    as_user scancel "$id"
    wait_until 60 is_forgotten "$id"
    job_with '' 'exit 3' | submit seen
    run -3 batchai job wait --name seen
    as_root_on login pkill -x slurmdbd
    wait_until 60 prints_nothing as_root_on login sh -c 'pgrep -x slurmdbd || [ $? -eq 1 ]'
    run batchai job list --query '[].name' --output tsv
    local listed=$status said=$output
    run batchai job show --name unseen
    as_root_on login slurmdbd
    wait_until 60 accounting_answers
    echo "$said"
    [[ $listed -eq 1 && $said == *"1 of "*" jobs are left out"*"Slurm's accounting does not answer"* ]]
    [[ $said == *seen* && $said != *unseen* ]]
    echo "$output"
    [[ $status -eq 1 && $output == *"Slurm's accounting does not answer"* ]]
    run -0 batchai job list --query '[].name' --output tsv
    [[ $output == *unseen* ]]
}
