#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The examples/frameworks whose packages all tests have, each on two hosts; for the others see
# framework_examples_full.bats.

bats_require_minimum_version 1.5.0
load lib
load framework_examples

setup_file() {
    prepare_examples framework-examples "$PYTHON"
    mpicc.openmpi -Wall -Werror -o "$BATS_FILE_TMPDIR/mpi_regression" "$EXAMPLES/mpi_regression.c"
    write_home "$SHARE/mpi_regression" < "$BATS_FILE_TMPDIR/mpi_regression"
    as_user chmod +x "$HOME_DIR/$SHARE/mpi_regression"
    # All wait in Slurm's queue together, in the order in which the tests wait for them.
    local example
    for example in torch torchrun keras-torch jax keras-jax tensorflow mpi; do submit "$example"; done
}

teardown_file() {
    cancel_jobs
    wait_until 60 nothing_is_queued
    remove_home
}

# Breaks when a variable of the world is wrong, or the ranks cannot meet at the port they have.
@test "PyTorch's DistributedDataParallel trains with env://" {
    trains torch 4
}

# Breaks when torchrun cannot listen on the port that the launcher holds.
@test "the same script trains under torchrun with c10d rendezvous" {
    trains torchrun 4
}

@test "a model of Keras on PyTorch trains with DistributedDataParallel" {
    trains keras-torch 2
}

# Breaks when the coordinator cannot listen on the port that is held, or JAX counts other processes.
@test "JAX trains on the devices of all processes" {
    trains jax 2
}

@test "Keras' own distribution trains on JAX" {
    trains keras-jax 2
}

# Breaks when the addresses of a job's nodes are not in the order of the ranks.
@test "TensorFlow's MultiWorkerMirroredStrategy trains" {
    trains tensorflow 2
}

# Breaks when the ranks of an Open MPI program do not get PMIx from us.
@test "an MPI program in C fits its line" {
    needs_pmix
    trains mpi 4
}

# Breaks when the page tells of versions that are no longer the tested ones, or not of all.
@test "docs/frameworks.md names the versions that the tests require" {
    local page=$SOURCE/docs/frameworks.md named
    named=$(sed -nE 's/`([a-z0-9-]+==[0-9.]+)`/\n\1\n/gp' "$page" | grep -E '^[a-z0-9-]+==[0-9.]+$' | sort -u)
    echo "$named"
    # A semicolon introduces for which Python a line is.
    prints_nothing comm -13 \
        <(sed 's/;.*//' "$SOURCE"/tests/{,integration/frameworks/}requirements.txt | sort) - <<< "$named"
    prints_nothing comm -23 <(grep -F == "$SOURCE/tests/integration/frameworks/requirements.txt" | sort) \
        - <<< "$named"
}

@test "nothing of these jobs is left on the hosts" {
    wait_until 60 nothing_is_queued
    wait_until 60 nodes_are_clean h1 h2 h3 h4
}
