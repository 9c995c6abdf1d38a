# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What the suites of jobs that are run again share. They load lib.bash before this file.

# A command that fails in the first attempt with the exit code, and then succeeds.
fails_first() { echo "[ \"\${SLURM_RESTART_COUNT:-0}\" -gt 0 ] || exit $1; echo done"; }
sleeps_first() { echo '[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || exec sleep 300; echo done'; }

# As it can in the first attempt, on the signal of "checkpoint" only.
stops_at_the_signal() {
    echo '[ "${SLURM_RESTART_COUNT:-0}" -eq 0 ] || exit 0
        trap "" TERM; trap "echo saved; exit 75" USR1; echo ready; while :; do sleep 0.2; done'
}

# job_that_runs COMMAND RETRY [SLURM [LIMIT [NODES]]]: the last but one as JSON. The job goes back into
# the queue, unless RETRY says otherwise.
job_that_runs() {
    jq -n --arg command "$1" --argjson retry "$2" --argjson slurm "${3:-{\}}" \
        --argjson limit "${4:-null}" --argjson nodes "${5:-1}" '{properties: ({
            nodeCount: $nodes, stdOutErrPathPrefix: "/shared/logs", retry: ({inAllocation: false} + $retry), slurm: $slurm,
            customMpiSettings: {commandLine: ("sh -c '"'"'" + $command + "'"'"'")}}
            + (if $limit then {constraints: {maxWallClockTime: $limit}} else {} end))}'
}

# submit NAME: the job file on standard input.
submit() { write_home "$1.json" && create "$1"; }

show() { batchai job show --name "$1" --output json; }
slurm_id() { show "$1" | jq -er .slurmJobId; }
nodes_of() { as_user squeue -h -j "$(slurm_id "$1")" -o %N; }
# In the queue once more. A job whose last run is being cleaned up is COMPLETING.
waits() { [[ $(as_user squeue -h -j "$(slurm_id "$1")" -o '%T') == PENDING ]]; }
ranks_run() {
    local steps
    steps=$(as_user squeue -h -s -j "$(slurm_id "$1")" -o %j) && [[ $steps == *sh* || $steps == *sleep* ]]
}
# attempts NAME: [who ended it, its exit code] for each attempt.
attempts() { show "$1" | jq -c '[.attempts[] | [.endedBy, .exitCode]]'; }
retry_of() { show "$1" | jq -r ".attempts[$2].retry"; }

# goes_on NAME: the job is queued again; it need not wait for the two minutes of Slurm.
goes_on() {
    wait_until 90 waits_or_has_begun "$1" || { show "$1"; return 1; }
    # Slurm may start it meanwhile.
    has_begun_again "$1" || start_again "$(slurm_id "$1")" || wait_until 60 has_begun_again "$1"
}
# waits_again NAME: not for its first attempt, as on a busy cluster.
waits_or_has_begun() { has_begun_again "$1" || waits_again "$1"; }
waits_again() { show "$1" | jq -e '.attempts | length > 0' > /dev/null && waits "$1"; }
has_begun_again() { show "$1" | jq -e '.attempts | length > 1' > /dev/null; }

# preempt NAME: a job of higher priority takes its nodes.
preempt() {
    wait_until 60 ranks_run "$1"
    as_user sbatch --quiet --partition=urgent --exclusive --output=/dev/null \
        --nodelist="$(nodes_of "$1")" --wrap 'sleep 2'
}

# noticed NAME: what Slurm does when the time of "checkpoint" has come. It sends URG to the batch script.
noticed() { as_user scancel --signal=URG --batch "$(slurm_id "$1")"; }
# has_said NAME TEXT: in the output of its ranks.
has_said() { batchai job logs "$1" 2> /dev/null | grep -qF "$2"; }
