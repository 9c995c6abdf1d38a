#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# libmpi_bridge and its Python packages between hosts: ranks started by srun, wired by PMIx, talking
# over TCP. MPI_BRIDGE_CHECK, MPI_BRIDGE_FAULTS and others are programs of this build; the library and the
# packages are the installed ones.

bats_require_minimum_version 1.5.0
load lib

share=/shared/core-test

setup_file() {
    as_root_on login install -d -m 755 "$share"
    put "$MPI_BRIDGE_CHECK" "$share/check"
    put "$MPI_BRIDGE_FAULTS" "$share/faults"
    put "$MPI_BRIDGE_ENGINE_CHECK" "$share/engine_check"
    put "$MPI_BRIDGE_PROGRAM_CHECK" "$share/program_check"
    local file
    for file in "$SOURCE"/mpi_bridge/python/tests/ranks/*.py; do
        put "$file" "$share/$(basename "$file")"
    done
}

teardown_file() { as_root_on login rm -rf "$share"; }

# ranks COUNT CMD…: as so many ranks on four hosts, ended after two minutes at the latest. MPI is what
# wires them up, if not what Slurm has.
ranks() {
    as_user env LD_LIBRARY_PATH="$PREFIX/lib" PYTHONPATH="$PREFIX/lib/batchai/python" \
        UCX_TLS=tcp,self OMP_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1 \
        TF_CPP_MIN_LOG_LEVEL=3 PYTHONDONTWRITEBYTECODE=1 \
        srun --nodes="$((${1} < 4 ? ${1} : 4))" --ntasks="$1" --mpi="${MPI:-$(slurm_mpi)}" \
        --kill-on-bad-exit=1 --time=2 "${@:2}"
}

# received_by HOST: bytes that came in over the host's interface, all but loopback.
received_by() {
    as_root_on "$1" sh -c 'cat /sys/class/net/[!l]*/statistics/rx_bytes' |
        awk '{ sum += $1 } END { printf "%.0f\n", sum }'
}

# Breaks when a collective is wrong between hosts for any type, operation or length, writes too
# little or too much, or when the data takes a way that real hosts do not have.
@test "all collectives are right on four hosts and go over the network" {
    local host before=() after
    for host in 1 2 3 4; do before[host]=$(received_by "h$host"); done
    run ranks 4 "$share/check"
    echo "$output"
    [[ $status -eq 0 ]]
    lines_are 1 "$(of_ranks "$output")"
    [[ $output == *" 4 ranks"* ]]
    for host in 1 2 3 4; do
        after=$(received_by "h$host")
        echo "h$host received $((after - before[host])) bytes"
        ((after - before[host] > 50000000))
    done
}

# Breaks when the algorithms count on a power of two, or on one rank a host.
@test "all collectives are right with six ranks on four hosts" {
    local network
    for network in tcp ucx; do
        run ranks 6 env MPI_BRIDGE_NETWORK=$network "$share/check" 0 1 5 4097
        echo "$output"
        [[ $status -eq 0 ]]
    done
    [[ $output == *" 6 ranks"* ]]
}

# Breaks when a Slurm without PMIx cannot run ranks: the map of ranks, the addresses or the end of a
# rank are not understood.
@test "Slurm's PMI-2 wires the ranks up where there is no PMIx" {
    local layout
    for layout in 4 6 "7 --distribution=cyclic"; do
        # shellcheck disable=SC2086
        MPI=pmi2 run ranks $layout "$share/check" 0 1 5 4097
        echo "$output"
        [[ $status -eq 0 && $output == *" ${layout%% *} ranks"* ]]
    done
    MPI=pmi2 run ranks 4 "$PYTHON" "$share/collectives.py"
    echo "$output"
    [[ $status -eq 0 && $output == *"passed on 4 ranks"* ]]
    MPI=pmi2 run ranks 4 "$share/faults" leaves
    echo "$output"
    [[ $status -eq 0 && $output == *mpi_bridge_faults:*"rank "* ]]
}

# Breaks when what a node's ranks do in shared memory and what its nodes do over the network do not
# fit together.
@test "all collectives are right with two ranks on each of four hosts" {
    run ranks 8 "$share/check" 0 1 5 4097 70001
    echo "$output"
    [[ $status -eq 0 && $output == *" 8 ranks"* && $output != *"shared memory is not used"* ]]
}

# Breaks when shared memory gives wrong results, or cannot be had by ranks of one host, and when
# something of it stays behind.
@test "all collectives are right on one host, in shared memory" {
    run ranks 3 --nodes=1 --overcommit "$share/check" 0 1 5 4097 70001
    echo "$output"
    [[ $status -eq 0 && $output == *" 3 ranks"* && $output != *"shared memory is not used"* ]]
    for host in h1 h2 h3 h4; do
        prints_nothing lines_like mpi_bridge as_root_on "$host" ls /dev/shm
    done
}

# Breaks when ranks that submit in different orders get wrong sums or wait for each other, when equal
# steps lead to no plan, and when what is not in the plan disturbs it.
@test "the engine trains on four hosts, every rank in an order of its own" {
    run ranks 8 "$share/engine_check"
    echo "$output"
    [[ $status -eq 0 && $output == *" 8 ranks, all correct"* ]]
}

# Breaks when a rank calculates in the mode that its program, or one of its libraries, has set.
@test "ranks in different floating-point modes get the same bits" {
    local mode algorithm
    for mode in flush upward; do
        for algorithm in recursive_doubling recursive_quadrupling halving_doubling direct ring; do
            run ranks 4 env MPI_BRIDGE_ALLREDUCE=$algorithm "$share/program_check" $mode
            echo "$output"
            [[ $status -eq 0 && $output == *" 4 ranks, all right"* ]]
        done
        for count in 2 3; do
            run ranks $count --nodes=1 --overcommit "$share/program_check" $mode
            echo "$output"
            [[ $status -eq 0 && $output == *" $count ranks, all right"* ]]
        done
        run ranks 8 "$share/program_check" $mode
        echo "$output"
        [[ $status -eq 0 && $output == *" 8 ranks, all right"* ]]
    done
}

# Breaks when a thread that needs memory waits for the collective of another thread.
@test "memory is allocated and freed while another thread is in a barrier" {
    run ranks 2 "$share/program_check" memory
    echo "$output"
    [[ $status -eq 0 && $output == *" 2 ranks, all right"* ]]
}

# Breaks when the timeline of a job is no JSON or does not show the tensors.
@test "a job's timelines merge into one that shows its tensors" {
    as_root_on login install -d -m 777 "$share/timeline"
    run ranks 4 env MPI_BRIDGE_TIMELINE="$share/timeline/t" "$share/engine_check"
    echo "$output"
    [[ $status -eq 0 ]]
    as_user "$PREFIX/bin/mpi_bridge_timeline" merge -o "$share/timeline/all.json" \
        "$share"/timeline/t.{0,1,2,3}.json
    run as_user python3 -c 'import json, sys
events = json.load(open(sys.argv[1]))
events = events if isinstance(events, list) else events["traceEvents"]
print(len({event["pid"] for event in events}), "ranks",
      any(event.get("name") == "ALLREDUCE" for event in events))' "$share/timeline/all.json"
    echo "$output"
    [[ $output == "4 ranks True" ]]
    run as_user "$PREFIX/bin/mpi_bridge_timeline" summary "$share/timeline/all.json"
    echo "$output"
    [[ $status -eq 0 && $output == *gradient/* ]]
}

# Breaks when a finished peer is waited for without end, or the message names nobody.
@test "a rank that leaves makes the others fail with its name" {
    run ranks 4 "$share/faults" leaves
    echo "$output"
    [[ $status -eq 0 && $output == *PEER_LOST*"rank "* ]]
}

# Breaks when a stuck peer hangs the others for ever.
@test "a rank that is late makes the others time out with its name" {
    run ranks 4 "$share/faults" late
    echo "$output"
    [[ $status -eq 0 && $output == *mpi_bridge_faults:*"rank "* ]]
}

# Breaks when ranks that disagree about a length get a wrong sum instead of an error.
@test "ranks that disagree about the length get an error" {
    run ranks 4 "$share/faults" mismatch
    echo "$output"
    [[ $status -eq 0 && $output == *mpi_bridge_faults:*"rank "* ]]
}

# Breaks when the death of a rank in the middle of a collective hangs the others: here Slurm does not
# end them, they must notice by themselves.
@test "a rank killed in a collective makes all others fail soon with the name of a rank" {
    as_root_on login sh -c "cat > $share/killed.py" << 'PYTHON'
import os
import signal
import time

import numpy as np

import mpi_bridge

mpi_bridge.init()
data = np.ones(1 << 20, "f4")
start = time.monotonic()
try:
    mpi_bridge.allreduce(data, data)
    # Another rank may still be in that call, and fails there.
    if mpi_bridge.rank() == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        mpi_bridge.allreduce(data, data, mpi_bridge.Op.MAX)
except mpi_bridge.PeerLostError as error:
    print(f"noticed after {int(time.monotonic() - start)} s: {error}", flush=True)
    # Neither finalize nor an abort: the others have to see for themselves too.
    os._exit(3)
PYTHON
    local network noticed
    for network in tcp ucx; do
        # Who does not notice it waits for the minute, and says nothing of a loss.
        run ranks 4 --kill-on-bad-exit=0 env MPI_BRIDGE_TIMEOUT_SECONDS=60 \
            MPI_BRIDGE_NETWORK=$network "$PYTHON" "$share/killed.py"
        echo "$output"
        [[ $status -eq 137 ]]
        noticed=$(grep -E '^noticed after [12]?[0-9] s: .*, rank [013] of 4: lost rank [0-3] ' <<< "$output")
        lines_are 3 "$noticed"
        [[ $noticed == *"lost rank 2 "* ]]
    done
}

# Breaks when the wrapper passes wrong pointers, types or lengths to the library.
@test "the Python package's collectives are right on four ranks" {
    run ranks 4 "$PYTHON" "$share/collectives.py"
    echo "$output"
    [[ $status -eq 0 && $output == *"passed on 4 ranks"* ]]
}

# Breaks when gradients are not averaged over hosts: training differs from one big batch.
@test "PyTorch on four ranks trains like one process on all data" {
    local part programs=()
    for part in training gradients sparse_gradients optimizers training_errors; do
        programs+=("$share/torch_$part.py")
    done
    run ranks 4 "$PYTHON" "$share/rows.py" "${programs[@]}"
    echo "$output"
    [[ $status -eq 0 && $output != *FAILED* ]]
    # Every check of every program has to say that it passed.
    local check checks=0
    while read -r check; do
        [[ $'\n'$output$'\n' == *$'\n'"PASSED $check"$'\n'* ]]
        checks=$((checks + 1))
    done < <(cd "$SOURCE/mpi_bridge/python/tests/ranks" &&
        sed -n 's/^def \(check_[a-z_0-9]*\)().*/\1/p' "${programs[@]##*/}")
    ((checks > 0))
}

# Breaks likewise in Keras on TensorFlow, and when broadcast or saved model are wrong.
@test "Keras on two ranks trains like one process on all data" {
    run ranks 2 "$PYTHON" "$share/keras_training.py"
    echo "$output"
    [[ $status -eq 0 && $output == *"passed on 2 ranks"* ]]
}
