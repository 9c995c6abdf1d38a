#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# A command that submits a job may be ended at any moment. No job runs that nobody can see, and a name
# that is used again takes nothing away from a job that runs.

bats_require_minimum_version 1.5.0
load lib

setup() {
    make_home "submission-$BATS_TEST_NUMBER"
    as_user mkdir -p "$HOME_DIR/bin"
    write_commands
    write_mpi_job job.json 1 'echo hello'
}

teardown() {
    cancel_jobs
    wait_until 60 nothing_is_queued
    remove_home
}

# sbatch and scontrol, as they are, but for the moments before and after a submission and a release.
# There a signal is sent to the command that has started them, if END_AT and END_BY say so.
# SILENT_RELEASES is how often slurmctld does not answer to a release.
write_commands() {
    write_home bin/sbatch << 'SH'
#!/bin/bash
[[ " $* " != *" --test-only "* ]] || exec /usr/bin/sbatch "$@"
at() {
    [[ ${END_AT:-} == "$1" ]] || return 0
    kill -s "$END_BY" "$PPID"
    [[ $1$END_BY != before-*KILL ]] || exit 1
}
at before-submission
said=$(/usr/bin/sbatch "$@"); code=$?
at after-submission
echo "$said"
exit "$code"
SH
    write_home bin/scontrol << 'SH'
#!/bin/bash
[[ $1 == release ]] || exec /usr/bin/scontrol "$@"
at() {
    [[ ${END_AT:-} == "$1" ]] || return 0
    kill -s "$END_BY" "$PPID"
    [[ $1$END_BY != before-*KILL ]] || exit 1
}
count=$BATCHAI_HOME/releases
echo >> "$count"
if (($(wc -l < "$count") <= ${SILENT_RELEASES:-0})); then
    [[ -z ${END_BY:-} ]] || kill -s "$END_BY" "$PPID"
    echo "slurm_update error: Unable to contact slurm controller (connect failure)" >&2
    exit 1
fi
at before-release
/usr/bin/scontrol "$@"; code=$?
at after-release
exit "$code"
SH
    # Once the job is there, it is shown.
    write_home bin/squeue << 'SH'
#!/bin/bash
[[ ${END_AT:-} != after-all || " $* " != *" --states=all "* ]] || kill -s "$END_BY" "$PPID"
exec /usr/bin/squeue "$@"
SH
    as_user chmod +x "$HOME_DIR/bin/sbatch" "$HOME_DIR/bin/scontrol" "$HOME_DIR/bin/squeue"
}

# ended_at "NAME=VALUE …" WORDS…: batchai with those commands. It may be ended by the signal.
ended_at() { batchai_with "PATH=$HOME_DIR/bin:/usr/bin:/bin $1" "${@:2}"; }

# job_directory NAME: where the records of such a job are.
job_directory() { echo "$HOME_DIR/records/groups/default/workspaces/default/experiments/default/jobs/$1"; }

# queue: "ID STATE REASON NAME" of alice's jobs.
queue() { as_user squeue -h -u alice -o '%F %T %r %j'; }
jobs_named() { queue | awk -v name="$1" '$4 == name' | wc -l; }
is_recorded() { batchai job show --name "$1" --output none 2> /dev/null; }
is_released() { [[ $(queue) != *JobHeldUser*" $1"* ]]; }

# Breaks when a job can run before it is recorded, a record is made of a job that was not submitted, or
# the leftover of an ended command is in the way of the next one.
@test "a job create that is ended at any moment leaves no job that nobody can see" {
    local by at name said failed=0
    for by in HUP INT TERM QUIT KILL; do
        for at in before-submission after-submission before-release after-release after-all; do
            name=$by-$at
            said=$(ended_at "END_AT=$at END_BY=$by" job create --name "$name" -f job.json -o none 2>&1) || true
            wait_until 60 sbatch_has_ended
            # Who has ended it in vain is told.
            [[ $by == KILL || $at != after-* || $said == *"has been submitted all the same, as Slurm job "* ]] ||
                { echo "$name: $said"; failed=1; }
            if is_recorded "$name"; then
                # Ended between record and release by a signal that nobody can hold.
                [[ $by$at == KILLbefore-release ]] || wait_until 60 is_released "$name" || failed=1
                run batchai job create --name "$name" -f job.json -o none
                [[ $status -eq 4 ]] || { echo "$name: again: $status $output"; failed=1; }
            elif queue | grep " $name\$" | grep -v 'PENDING JobHeldUser'; then
                echo "$name runs and is not recorded"
                failed=1
            else
                run batchai job create --name "$name" -f job.json -o none
                [[ $status -eq 0 ]] || { echo "$name: again: $status $output"; failed=1; }
                is_recorded "$name" || { echo "$name: again: no record"; failed=1; }
            fi
            [[ $(jobs_named "$name") -le 1 ]] || { queue; failed=1; }
        done
    done
    [[ $failed -eq 0 ]]
    # Of those that were not let go, each has a record, and can be let go and deleted.
    [[ $(queue | grep -c JobHeldUser) -eq 1 ]]
    [[ $(batchai job show -n KILL-before-release --query pendingReason.reason -o tsv) == JobHeldUser ]]
    batchai job delete --name KILL-before-release --yes
    [[ $(batchai job list --query 'length(@)') -eq 24 ]]
}

# Breaks when an interrupt hides that Slurm has taken the tasks.
@test "job resume of an array that is interrupted says what it has queued" {
    write_mpi_job array.json 1 'exit 3'
    batchai job create --name again -f array.json -o none -- --array=1-2
    run batchai job wait --name again
    run ended_at "END_AT=after-release END_BY=INT" job resume --name again
    [[ $status -ne 0 && $output == *"2 tasks are queued again as Slurm job "*": 1-2"* ]]
}

# For wait_until: the sbatch of a command that was killed goes on by itself.
sbatch_has_ended() { prints_nothing lines_like '[s]batch' as_user ps -u alice -o args=; }

# Breaks when what a killed command has left is found by nobody, or its name is lost.
@test "what a killed create has left is named, and can be deleted" {
    local id
    ended_at "END_AT=after-submission END_BY=KILL" job create --name lost -f job.json || true
    wait_until 60 sbatch_has_ended
    id=$(queue | awk '$4 == "lost" { print $1 }')
    [[ -n $id ]]
    run -0 batchai job list -o tsv
    [[ $output == *'the job "lost" was not finished'*"batchai job delete"* ]]
    run -5 batchai job show --name lost
    [[ $output == *'was not finished'* ]]
    run -0 batchai job delete --name lost --yes
    [[ $output == *"Slurm job $id, which an interrupted command had left without a record, was ended"* ]]
    wait_until 60 nothing_is_queued
    run -0 --separate-stderr batchai job list
    # shellcheck disable=SC2154 # bats' run --separate-stderr sets it
    [[ $output == '[]' && -z $stderr ]]
}

# Breaks when the directory of a running job is given to another one.
@test "a job that runs without a record keeps its directory" {
    local id directory
    directory=$(job_directory again)
    write_mpi_job long.json 1 "touch $HOME_DIR/started; until [ -e $HOME_DIR/ended ]; do sleep 0.2; done; echo first"
    ended_at "END_AT=after-submission END_BY=KILL" job create --name again -f long.json || true
    wait_until 60 sbatch_has_ended
    id=$(queue | awk '$4 == "again" { print $1 }')
    as_user scontrol release "$id"
    wait_until 60 as_user test -e "$HOME_DIR/started"
    run -4 batchai job create --name again -f job.json
    [[ $output == *"Slurm job $id"*"runs from here"*"scancel $id"* ]]
    run -4 batchai job delete --name again --yes
    as_user test -e "$directory/plan.json"
    as_user touch "$HOME_DIR/ended"
    wait_until 60 has_ended "$id"
    as_user grep -rqx first "$HOME_DIR/logs"
    batchai job create --name again -f job.json -o none
    run -0 batchai job wait --name again
    [[ $(output_of again) == hello ]]
}

# Breaks when a job stays held because slurmctld was away for a moment, or nobody is told that it does.
@test "a job is let go when slurmctld answers again, and its user is told if it does not" {
    run -0 ended_at SILENT_RELEASES=2 job create --name patient -f job.json -o none
    [[ $output == *"waits, held, until Slurm answers again"* ]]
    run -0 batchai job wait --name patient
    as_user rm "$HOME_DIR/records/releases"
    run -1 ended_at "SILENT_RELEASES=100 END_BY=INT" job create --name held -f job.json
    [[ $output == *"is recorded, but still held"*"scontrol release"* ]]
    [[ $(batchai job show --name held --query pendingReason.reason -o tsv) == JobHeldUser ]]
    as_user scontrol release "$(batchai job show --name held --query slurmJobId -o tsv)"
    run -0 batchai job wait --name held
}

# Breaks when a job that Slurm has taken late, after its create had given up, is found by nobody.
@test "a job that Slurm took after its create had gone is ended by the next create of the name" {
    local id directory
    directory=$(job_directory late)
    batchai job create --name first -f job.json -o none
    as_user mkdir -p "$directory"
    as_user cp "$(job_directory first)/batch.sh" "$directory/batch.sh"
    id=$(as_user sbatch --parsable --hold -J late -o /dev/null "$directory/batch.sh")
    as_user rm -r "$directory"
    run -0 batchai job create --name late -f job.json -o none
    [[ $output == *"Slurm job $id, which an interrupted command had left without a record, was ended"* ]]
    run -0 batchai job wait --name late
}

# Breaks when a job that can never run is kept for ever, or one is refused that only has to wait.
@test "a job that fits no nodes is refused at once, and one whose nodes are drained waits" {
    run -4 batchai job create --name huge -f job.json -- --mem=100T
    [[ $output == *"sbatch: "*"node configuration is not available"*"sinfo -Nl"* ]]
    run -5 batchai job show --name huge
    [[ -z $(queue) ]]
    as_root_on login scontrol update 'NodeName=h[1-4]' State=DRAIN Reason=test
    run batchai job create --name patient -f job.json -o none
    as_root_on login scontrol update 'NodeName=h[1-4]' State=RESUME
    [[ $status -eq 0 ]]
    run -0 batchai job wait --name patient
}

# Breaks when a job that Slurm has let go is said to be held, because of what Slurm says of its size.
@test "a job that is larger than the cluster waits, and its user is told" {
    write_mpi_job wide.json 40 'true'
    run -0 batchai job create --name wide -f wide.json -o none
    [[ $output == *"warning: Slurm job "*" does not start as things are"* ]]
    [[ $output != *held* && $(queue) == *"PENDING Partition"*" wide"* ]]
    run -0 batchai job show --name wide --query pendingReason.hint
    [[ $output == *"lower nodeCount"* ]]
    batchai job terminate --name wide --yes
}

# waits_for_its_time NAME: for wait_until; Slurm's scheduler has looked at it.
waits_for_its_time() { [[ $(queue) == *"PENDING BeginTime $1"* ]]; }

# Breaks when a user's own --hold, --begin or --nice is lost with the launcher's hold.
@test "a job that its user holds stays held, and other wishes are kept" {
    local about
    batchai job create --name mine -f job.json -o none -- --hold
    [[ $(queue) == *"PENDING JobHeldUser mine"* ]]
    batchai job create --name later -f job.json -o none -- --begin=now+1hour --nice=77
    wait_until 60 waits_for_its_time later
    about=$(as_user scontrol show job -o "$(batchai job show -n later --query slurmJobId -o tsv)")
    [[ $about == *" Nice=77 "* ]]
}

# Breaks when tasks are queued again by an array that nobody knows.
@test "an array that a killed retry has left is ended by the next one" {
    local first
    write_mpi_job tune.json 1 'exit 1' '{"sweep": {"parameters": {"seed": [1, 2]}}}'
    batchai job create --name tune -f tune.json -o none
    wait_until 90 nothing_is_queued
    ended_at "END_AT=after-submission END_BY=KILL" sweep retry --name tune || true
    wait_until 60 sbatch_has_ended
    first=$(queue | awk '{ print $1 }' | sort -u)
    [[ -n $first && $(queue) == *JobHeldUser* ]]
    run -0 batchai sweep retry --name tune --output none
    [[ $output == *"Slurm job $first, which an interrupted command had left"* ]]
    wait_until 90 nothing_is_queued
    run -0 batchai job show --name tune --query taskStateCounts.failed
    [[ $output == 2 ]]
}

# Breaks when a taken name is refused with one code here and another there.
@test "a name that is taken is refused with one exit code, whoever comes first" {
    batchai job create --name one -f job.json -o none
    run -4 batchai job create --name one -f job.json
    [[ $output == *"already exists"* ]]
    for _ in 1 2 3 4; do
        { batchai job create --name race -f job.json -o none || echo $?; } >> "$BATS_TEST_TMPDIR/codes" 2> /dev/null &
    done
    wait
    cat "$BATS_TEST_TMPDIR/codes"
    [[ $(sort "$BATS_TEST_TMPDIR/codes" | tr '\n' ' ') == '4 4 4 ' ]]
    [[ $(jobs_named race) -le 1 ]]
    batchai cluster create --name c --vm-size any --target 1 --output none
    run -4 batchai cluster create --name c --vm-size any --target 1
}

# Breaks when a record that cannot be read hides all clusters, or a cluster goes while a job of
# another workspace is on it.
@test "a job on a cluster of another workspace ends with it, and an unreadable record hides no cluster" {
    local group=team other=$HOME_DIR/records/groups/team/workspaces/other id
    batchai group create -n "$group" -o none
    batchai workspace create -w pool -g "$group" -o none
    batchai cluster create --name c -w pool -g "$group" --vm-size any --target 1 -o none
    batchai workspace create -w other -g "$group" -o none
    for name in broken guest; do
        batchai job create --name "$name" -w other -g "$group" -f job.json -o none \
            --cluster "$(batchai cluster show --name c -w pool -g "$group" --query id -o tsv)" -- --hold
    done
    id=$(batchai job show --name guest -w other -g "$group" --query slurmJobId -o tsv)
    as_user sh -c "echo '{' > $other/experiments/default/jobs/broken/job.json"
    run -0 batchai cluster list -w pool -g "$group" --query '[].name' -o tsv
    [[ $output == *"cannot be read"*$'\n'c ]]
    run -1 --separate-stderr batchai job list -w other -g "$group" --query '[].name' -o tsv --only-show-errors
    # shellcheck disable=SC2154 # bats' run --separate-stderr sets it
    [[ $output == guest && $stderr == *"batchai: error: a job is left out"* ]]
    run -0 batchai workspace delete -w pool -g "$group" --yes
    wait_until 60 has_ended "$id"
}
