#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Programs of other MPI libraries, as Debian has them, under `batchai run`.

bats_require_minimum_version 1.5.0
load lib

share=/shared/mpi-test

setup_file() {
    make_home mpi
    as_root_on login install -d -m 1777 "$share"
    local library
    for library in openmpi mpich; do
        "mpicc.$library" -Wall -Werror -o "$BATS_FILE_TMPDIR/$library" \
            "$SOURCE/tests/integration/mpi_sum.c"
        put "$BATS_FILE_TMPDIR/$library" "$share/$library"
    done
}

teardown_file() { remove_home; }
teardown() { cancel_jobs; }

# job NAME SETTINGS COMMAND: runs a job on four nodes and prints its output.
job() {
    jq -n --arg command "$3" "{properties: {nodeCount: 4, stdOutErrPathPrefix: \"$HOME_DIR/logs\",
        $2: {commandLine: \$command}}}" | write_home "$1.json"
    create "$1"
    batchai job wait --name "$1"
    as_user bash -c "find '$HOME_DIR/logs' -path '*/jobs/$1/*/stdout.txt' -exec cat {} +"
}

all_ranks_agree() {
    local rank
    for rank in 0 1 2 3; do
        with_node_names <<< "$1" | grep -x "rank $rank of 4 on h$((rank + 1)): sum 6"
    done
}

# Breaks when the ranks of an Open MPI program do not get PMIx from us. It sends over UCX: with its own
# TCP, Open MPI 5.0.7 of Debian 13 crashes in one of ten MPI_Init, with us or without.
@test "an Open MPI program runs as it is, without mpirun" {
    needs_pmix
    run job open customMpiSettings "OMPI_MCA_pml=ucx OMPI_MCA_pml_ucx_tls=any UCX_TLS=tcp,self $share/openmpi"
    echo "$output"
    [[ $status -eq 0 ]]
    all_ranks_agree "$output"
}

# Breaks when a launcher of the user's own does not find the hosts or cannot start tasks there.
# The deadline is for MPICH 4.0.2 over UCX's TCP: in one run of five a rank waits in MPI_Finalize for
# others that are past it. With or without us; the sums are there by then.
@test "an MPICH program runs by its own launcher" {
    run job mpich customToolkitSettings "export UCX_TLS=tcp,self SLURM_OVERLAP=1
        timeout --kill-after=5 45 mpiexec.mpich -bootstrap slurm -n 4 -ppn 1 $share/mpich"
    echo "$output"
    [[ $status -eq 0 ]]
    all_ranks_agree "$output"
}
