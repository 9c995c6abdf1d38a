#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Scripts that know nothing of batchai find the other ranks, as docs/frameworks.md says.

bats_require_minimum_version 1.5.0
load lib

setup_file() {
    make_home frameworks
    local script
    for script in torch_env jax_initialize; do
        write_home "$script.py" < "$SOURCE/tests/integration/frameworks/$script.py"
    done
}

teardown_file() {
    wait_until 60 nothing_is_queued
    remove_home
}
# Jobs get the first nodes that are free.
setup() { wait_until 60 nodes_idle 4; }
teardown() { cancel_jobs; }

# job PROCESSES COMMAND: a job file for two nodes.
job() {
    jq -n --argjson processes "$1" --arg command "$2" "{properties: {nodeCount: 2,
        stdOutErrPathPrefix: \"$HOME_DIR/logs\",
        customMpiSettings: {processCount: \$processes, commandLine: \$command}}}" |
        write_home job.json
}

# slurm COMMAND WORDS…: srun or salloc with a job file, as a user whose Python finds our packages. One
# thread for each rank is enough, and the machine may be small.
slurm() {
    as_user env OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 "BATCHAI_HOME=$HOME_DIR/records" \
        "PYTHONPATH=$PREFIX/lib/batchai/python" "$1" --job-json="$HOME_DIR/job.json" "${@:2}"
}

# run_ids TEXT: the different run ids that ranks print.
run_ids() { sed -n 's/.*, run \([^,]*\),.*/\1/p' <<< "$1" | sort -u; }

# Breaks when a variable of the world is wrong or the ranks cannot open a store at the port they have.
@test "a script of torch with env:// and gloo runs as it is" {
    job 4 true
    run slurm srun "$PYTHON" "$HOME_DIR/torch_env.py"
    echo "$output"
    [[ $status -eq 0 ]]
    local rank
    for rank in 0 1 2 3; do
        [[ $output == *"rank $rank/4 local $((rank % 2))/2 group $((rank / 2))/2 on h$((rank / 2 + 1)): sum 15,"* ]]
    done
    lines_are 4 "$(grep -E ', run [0-9]+\.0, elastic True$' <<< "$output")"
    lines_are 1 "$(run_ids "$output")"
}

# Breaks when Lightning takes the only task of a step for one of torchrun's, and no longer requeues it.
@test "a task that is alone is not told that torchrun has started it" {
    job 2 true
    run slurm salloc srun --nodes=1 --ntasks=1 "$PYTHON" "$HOME_DIR/torch_env.py"
    echo "$output"
    [[ $status -eq 0 && $output == *"rank 0/1 local 0/1 group 0/1 on h1: sum 1, run None, elastic False"* ]]
}

# run_torchrun NAME ARGUMENTS…: torchrun in one task on each of two nodes; $workers is what they say.
run_torchrun() {
    # shellcheck disable=SC2016 # for the job
    job 2 "env OMP_NUM_THREADS=1 PYTHONPATH=$PREFIX/lib/batchai/python PYTHONDONTWRITEBYTECODE=1 \
        ${PYTHON%/*}/torchrun "'--nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d \
        --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT --rdzv-id=$SLURM_JOB_ID '"\
        $HOME_DIR/torch_env.py ${*:2}"
    create "$1" job.json
    local code=0 rank
    batchai job wait --name "$1" || code=$?
    workers=$(batchai job file stream --job "$1" --file-name stdout.txt)
    echo "$workers"
    [[ $code -eq 0 ]]
    for rank in 0 1 2 3; do
        # Which node becomes torchrun's first is its own choice.
        [[ $workers =~ "rank $rank/4 local $((rank % 2))/2 group $((rank / 2))/2 on h"[12]": sum 15," ]]
    done
}

# Breaks when torchrun cannot listen on the port that the launcher holds, or when its workers pass for
# ranks of the launcher's PMIx where mpi_bridge is loaded.
@test "torchrun in one task per node starts its workers on all nodes" {
    run_torchrun torchrun --with-the-package
    lines_are 1 "$(run_ids "$workers")"
    [[ $(run_ids "$workers") =~ ^[0-9]+$ ]]
}

# Breaks when workers of torchrun on several nodes do not find each other in its store.
@test "workers of torchrun reduce over mpi_bridge" {
    run_torchrun over --over-the-package
}

# Breaks when the coordinator cannot listen on the port that is held, or another address is taken.
@test "jax.distributed.initialize() needs no arguments" {
    job 2 true
    run slurm srun "$PYTHON" "$HOME_DIR/jax_initialize.py"
    echo "$output"
    [[ $status -eq 0 ]]
    local process
    for process in 0 1; do
        [[ $output == *"process $process/2 on h$((process + 1)): sum 3, 2 devices"* ]]
    done
}
