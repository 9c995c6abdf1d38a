#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# A slurmctld that is lost, and another host's that takes over some seconds later, while a job is submitted,
# prepared, runs or is ended. The suite has a cluster of its own, on which h1 has the second one.

bats_require_minimum_version 1.5.0
load lib

setup_file() { own_cluster bk --nodes 3 --with backup; }
teardown_file() { "$MINICLUSTER" down --keep-logs; }

setup() {
    make_home "failover-$BATS_TEST_NUMBER"
    as_user mkdir -p "$HOME_DIR/bin"
}

teardown() {
    the_first_is_back
    cancel_jobs
    wait_until 60 nothing_is_queued
    remove_home
}

# Which of the two answers: "UP DOWN" is the first alone.
controllers() { as_user scontrol ping | sed -E 's/.* is //' | xargs; }
answer() { [[ $(controllers) == "$1" ]]; }
# It saves its state, as when an admin stops it. That of one that was killed may be some seconds old:
# then Slurm itself takes jobs for pending that run.
the_first_is_lost() {
    as_root_on login pkill -TERM -x slurmctld
    wait_until 60 prints_nothing as_root_on login sh -c 'pgrep -x slurmctld || [ $? -eq 1 ]'
}
# Slurm 22.05's second one may not survive that the first takes the control back.
the_first_is_back() {
    [[ $(controllers) == UP* ]] || as_root_on login slurmctld
    wait_until 60 one_answers
    [[ $(controllers) == *UP ]] || as_root_on h1 slurmctld
    wait_until 60 answer 'UP UP' || { controllers; return 1; }
    wait_until 60 one_answers
}
# A command that finds neither says so at once, which is down.bats.
one_answers() { as_user squeue -h > /dev/null; }

waits_for() { echo "until [ -e $HOME_DIR/$1 ]; do sleep 0.2; done"; }
has_begun() { as_user test -e "$HOME_DIR/begun"; }

# Breaks when a submission gives up, or submits twice, while nobody answers.
@test "a controller that is lost at any moment of a submission takes no job and adds none" {
    local at
    write_mpi_job job.json 2 'echo hello'
    for at in before-sbatch after-sbatch before-release after-release; do
        write_home bin/sbatch << SH
#!/bin/bash
lose() { [[ $at != "\$1-sbatch" || " \$* " == *test-only* ]] || {
    touch $HOME_DIR/$at; until [[ -e $HOME_DIR/$at.lost ]]; do sleep 0.1; done; }; }
lose before "\$@"; /usr/bin/sbatch "\$@"; code=\$?; lose after "\$@"; exit "\$code"
SH
        write_home bin/scontrol << SH
#!/bin/bash
lose() { [[ $at != "\$1-\$2" || -e $HOME_DIR/$at ]] || {
    touch $HOME_DIR/$at; until [[ -e $HOME_DIR/$at.lost ]]; do sleep 0.1; done; }; }
lose before "\$@"; /usr/bin/scontrol "\$@"; code=\$?; lose after "\$@"; exit "\$code"
SH
        as_user chmod +x "$HOME_DIR/bin/sbatch" "$HOME_DIR/bin/scontrol"
        batchai_with "PATH=$HOME_DIR/bin:/usr/bin:/bin" job create --name "$at" -f job.json -o none \
            &> "$BATS_TEST_TMPDIR/said" 3>&- &
        wait_until 60 as_user test -e "$HOME_DIR/$at"
        the_first_is_lost
        as_user touch "$HOME_DIR/$at.lost"
        wait $! || { cat "$BATS_TEST_TMPDIR/said"; return 1; }
        wait_until 60 one_answers
        run -0 batchai job wait --name "$at"
        [[ $(output_of "$at") == $'hello\nhello' ]]
        wait_until 60 nothing_is_queued
        the_first_is_back
    done
}

@test "a controller that is lost during the preparation and the ranks is not missed" {
    local phase slow
    for phase in preparation ranks; do
        as_user rm -f "$HOME_DIR/begun" "$HOME_DIR/go"
        slow="touch $HOME_DIR/begun; $(waits_for go)"
        if [[ $phase == preparation ]]; then
            write_mpi_job job.json 2 'echo hello' "$(jq -n --arg command "$slow" '{jobPreparation: {commandLine: $command}}')"
        else
            write_mpi_job job.json 2 "$slow; echo hello"
        fi
        run -0 batchai job create --name "in-$phase" -f job.json -o none
        wait_until 60 has_begun
        batchai job wait --name "in-$phase" &> "$BATS_TEST_TMPDIR/waited" 3>&- &
        wait_until 60 grep -q running "$BATS_TEST_TMPDIR/waited"
        the_first_is_lost
        as_user touch "$HOME_DIR/go"
        wait $! || { cat "$BATS_TEST_TMPDIR/waited"; return 1; }
        wait_until 60 one_answers
        [[ $(output_of "in-$phase") == $'hello\nhello' ]]
        run -0 batchai job show --name "in-$phase" --query executionState -o tsv
        [[ $output == succeeded ]]
        the_first_is_back
    done
}

@test "a job is ended by the controller that has taken over" {
    write_mpi_job job.json 2 "touch $HOME_DIR/begun; sleep 600"
    run -0 batchai job create --name long -f job.json -o none
    wait_until 60 has_begun
    the_first_is_lost
    wait_until 60 one_answers
    run -0 batchai job terminate --name long --yes
    run batchai job show --name long --query executionInfo.errors[0].code -o tsv
    echo "$output"
    [[ $output == JobTerminated || $output == JobCancelled ]]
    # It is listed until it has been cleaned up.
    wait_until 60 nothing_is_queued
}
