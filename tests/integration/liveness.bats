#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# What the ranks of libmpi_bridge tell of each other: who is frozen, who is slow, and what failed
# first. A rank freezes or dies by a signal to itself, in a blocking call or in the engine.

bats_require_minimum_version 1.5.0
load lib

share=/shared/liveness-test

setup_file() {
    as_root_on login install -d -m 755 "$share"
    put "$MPI_BRIDGE_PROGRAM_CHECK" "$share/program_check"
    as_root_on login sh -c "cat > $share/train.py" << 'PYTHON'
"""Twenty steps of a blocking call or of the engine; in step 10 rank 2 does what it is told."""

import os
import signal
import sys
import threading
import time

import numpy as np

import mpi_bridge
from mpi_bridge import engine

door, deed, seen = sys.argv[1:4]


def wait_until_seen() -> None:
    while not os.path.exists(seen):
        time.sleep(0.2)


mpi_bridge.init()
rank, size = mpi_bridge.rank(), mpi_bridge.size()
data = np.ones(4096, "f4")
result = np.zeros_like(data)
began = time.monotonic()
try:
    for step in range(1000000 if deed == "go on" else 20):
        if step == 10 and rank == 0 and deed == "go on":
            print("they train", flush=True)
        if step == 10 and rank == 2:
            if deed == "freeze":
                # Somebody else lets it go on, as an admin would.
                if os.fork() == 0:
                    wait_until_seen()
                    os.kill(os.getppid(), signal.SIGCONT)
                    os._exit(0)
                os.kill(os.getpid(), signal.SIGSTOP)
            elif deed == "evaluate":
                wait_until_seen()
            elif deed == "die":
                print(f"dies at {time.time():.3f}", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            elif deed == "err":
                data = np.ones(5, "f4")
                result = np.zeros_like(data)
        if door == "engine":
            engine.call(engine.Kind.ALLREDUCE, data, result, name="x")
        else:
            mpi_bridge.allreduce(data, result)
        assert result[0] == size
    print(f"trained: rank {rank}", flush=True)
except mpi_bridge.MpiBridgeError as error:
    print(f"noticed at {time.time():.3f}: rank {rank}: {type(error).__name__}: {error}", flush=True)
    # Neither finalize nor an abort: the others have to see for themselves too.
    time.sleep(3)
    os._exit(3)
PYTHON
}

teardown_file() { as_root_on login rm -rf "$share"; }

# Threads of ranks 0, 1 and 3 that wait in the engine for rank 2, which does what it is told.
write_waiters() {
    as_root_on login sh -c "cat > $share/waiters.py" << 'PYTHON'
import os
import signal
import sys
import threading
import time

import numpy as np

import mpi_bridge
from mpi_bridge import engine

threads, deed = int(sys.argv[1]), sys.argv[2]
mpi_bridge.init()
rank = mpi_bridge.rank()
data = np.ones((threads, 4096), "f4")
# All connections are there, and so is a plan.
for step in range(4):
    engine.call(engine.Kind.ALLREDUCE, data, data, name="all")


def wait(number: int) -> None:
    try:
        engine.call(engine.Kind.ALLREDUCE, data[number], data[number], name=f"x{number}")
    except mpi_bridge.MpiBridgeError as error:
        print(f"left at {time.time():.3f}: rank {rank}: {error}\n", end="", flush=True)


if rank == 2 and deed != "finalize":
    time.sleep(1)
    print(f"deed at {time.time():.3f}", flush=True)
    if deed == "freeze" and os.fork() == 0:
        # By then all others have left.
        time.sleep(6)
        os.kill(os.getppid(), signal.SIGKILL)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL if deed == "die" else signal.SIGSTOP)
if rank == 2:
    # It is waited for, and does not come.
    time.sleep(8)
    os._exit(0)
waiting = [threading.Thread(target=wait, args=(number,)) for number in range(threads)]
for one in waiting:
    one.start()
if deed == "finalize" and rank == 0:
    time.sleep(1)
    print(f"deed at {time.time():.3f}", flush=True)
    mpi_bridge.shutdown()
for one in waiting:
    one.join()
# Whoever leaves later must not have seen this process end.
time.sleep(1)
os._exit(0)
PYTHON
}

# seconds_between PATTERN PATTERN: from the time in the line of $output like the first to the latest
# in lines like the second.
seconds_between() {
    awk -v first="$1" -v last="$2" '$0 ~ first { began = $3 + 0 } $0 ~ last && $3 + 0 > end { end = $3 + 0 }
        END { printf "%.3f", end - began }' <<< "$output"
}

# all_threads_leave DEED RANKS [VARIABLE=VALUE…]: those of these ranks do, between hosts over TCP and
# UCX, and in shared memory. With one, four and eight threads on each rank in scripts/test --full,
# else with some of these.
all_threads_leave() {
    local case network threads left cases=(tcp:1 tcp:8 ucx:4 shm:1 shm:8)
    [[ -z ${BATCHAI_TEST_FULL:-} ]] || cases=({tcp,ucx,shm}:{1,4,8})
    for case in "${cases[@]}"; do
        IFS=: read -r network threads <<< "$case"
        run as_user env LD_LIBRARY_PATH="$PREFIX/lib" UCX_TLS=tcp,self \
            PYTHONPATH="$PREFIX/lib/batchai/python" OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 \
            MPI_BRIDGE_NETWORK="${network/shm/auto}" "${@:3}" \
            srun --nodes="$([[ $network == shm ]] && echo 1 || echo 4)" --ntasks=4 --mpi="$(slurm_mpi)" \
            --kill-on-bad-exit=0 --time=3 "$PYTHON" "$share/waiters.py" "$threads" "$1"
        echo "$output"
        left=$(grep -E "^left at [0-9.]+: rank [$2]:" <<< "$output")
        lines_are $((${#2} * threads)) "$left"
        echo "# $1, $network, $threads threads a rank: the last leaves after" \
            "$(seconds_between '^deed at ' '^left at ') s" >&3
    done
}

# ranks DOOR DEED [VARIABLE=VALUE…]: four ranks on four hosts, or on $HOSTS.
ranks() {
    as_user env LD_LIBRARY_PATH="$PREFIX/lib" PYTHONPATH="$PREFIX/lib/batchai/python" \
        OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 MPI_BRIDGE_STALL_SECONDS=3 "${@:3}" \
        srun --nodes="${HOSTS:-4}" --ntasks=4 --mpi="$(slurm_mpi)" --kill-on-bad-exit=0 --time=2 \
        "$PYTHON" "$share/train.py" "$1" "$2" "$share/seen"
}

# held_up PATTERN DOOR DEED [VARIABLE=VALUE…]: these ranks, of which rank 2 holds up the others until one has
# said so. Sets output and status. How long that takes depends on what else the machine does.
held_up() {
    as_root_on login rm -f "$share/seen"
    rm -f "$BATS_TEST_TMPDIR/output"
    ranks "${@:2}" &> "$BATS_TEST_TMPDIR/output" &
    wait_until 90 grep -qE "$1" "$BATS_TEST_TMPDIR/output" || true
    as_root_on login touch "$share/seen"
    status=0
    wait $! || status=$?
    output=$(< "$BATS_TEST_TMPDIR/output")
    echo "$output"
    grep -E "$1" <<< "$output"
}

# Breaks when a rank that is frozen as a whole is taken for a slow one, is not named, or ends the job
# although it goes on in the end. Its state is known where another rank runs on its host.
@test "a frozen rank is named with host, process and state, and waited for" {
    local door HOSTS state
    for HOSTS in 4 2 1; do
        state="which has been stopped by a signal"
        ((HOSTS == 4)) && state="which does not answer; it may be stopped, or its host down"
        for door in call engine; do
            held_up "mpi_bridge: rank [013]: a call has waited for ([2-9]|[1-9][0-9]) s for rank 2 \(host (node-)?h[1-4], process [0-9]+\), $state" \
                "$door" freeze
            [[ $status -eq 0 ]]
            lines_are 4 "$(grep '^trained: ' <<< "$output")"
        done
    done
}

# Breaks when the ranks wait for minutes for a host without power: nobody says that it is gone, and no
# connection breaks.
@test "ranks on a host that falls silent are lost" {
    local door
    for door in call engine; do
        rm -f "$BATS_TEST_TMPDIR/output"
        ranks "$door" "go on" MPI_BRIDGE_HOST_TIMEOUT_SECONDS=3 &> "$BATS_TEST_TMPDIR/output" &
        wait_until 60 grep -q 'they train' "$BATS_TEST_TMPDIR/output"
        as_root_on h3 ip link set eth0 down
        wait_until 60 three_notice || cat "$BATS_TEST_TMPDIR/output"
        as_root_on h3 ip link set eth0 up
        cancel_jobs
        if wait $!; then false; fi # ranks that notice a loss end badly
        cat "$BATS_TEST_TMPDIR/output"
        three_notice
        grep -E 'noticed at .*: PeerLostError: .*rank 2 \((its host has not answered for ([3-9]|[1-9][0-9]) s|.*timed out|.*No route to host)' \
            "$BATS_TEST_TMPDIR/output"
        wait_until 60 nodes_idle 4
    done
}

three_notice() {
    [[ $(grep -c 'noticed at .*: rank [013]: PeerLostError' "$BATS_TEST_TMPDIR/output") -eq 3 ]]
}

# Breaks when a rank that evaluates ends the job, or is called frozen.
@test "a slow rank is waited for and not called frozen" {
    local door expected
    for door in call engine; do
        case $door in
            call) expected='for rank 2 \(host .*which runs, but has not come to this call' ;;
            engine) expected='"x" \(allreduce, 16\.0 KiB\): missing on rank 2' ;;
        esac
        held_up "$expected" "$door" evaluate
        [[ $status -eq 0 ]]
        lines_are 4 "$(grep '^trained: ' <<< "$output")"
        [[ $output != *"does not answer"* && $output != *"stopped"* ]]
    done
}

# Breaks when only ranks that have come to a collective before are waited for with a word.
@test "a rank that does not come to the first collective is reported" {
    local door HOSTS expected
    for HOSTS in 4 1; do
        for door in call engine set; do
            rm -f "$BATS_TEST_TMPDIR/output"
            as_root_on login rm -f "$share/come"
            as_user env LD_LIBRARY_PATH="$PREFIX/lib" MPI_BRIDGE_STALL_SECONDS=1 \
                srun --nodes="$HOSTS" --ntasks=4 --overcommit --mpi="$(slurm_mpi)" --time=2 \
                "$share/program_check" absent "$door" "$share/come" &> "$BATS_TEST_TMPDIR/output" &
            case $door in
                engine) expected='mpi_bridge: rank [0-2]: 1 operation has waited .*"first" .*missing on rank 3' ;;
                *) expected='mpi_bridge: rank [0-2]: .*for rank 3 .*which runs, but has not come to this call' ;;
            esac
            wait_until 60 grep -qE "$expected" "$BATS_TEST_TMPDIR/output" || cat "$BATS_TEST_TMPDIR/output"
            as_root_on login touch "$share/come"
            wait $!
            run cat "$BATS_TEST_TMPDIR/output"
            echo "$output"
            grep -E "$expected" <<< "$output"
            [[ $output == *" 4 ranks, all right"* ]]
        done
    done
}

# Breaks when Horovod's setting does not end a job that waits for a frozen rank.
@test "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS ends what waits for a frozen rank" {
    held_up 'given up after .* s of waiting for rank 2' call freeze HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=5
    [[ $status -ne 0 ]]
}

# Breaks when a death is not told to all, or only long after.
@test "the death of a rank is noticed by all others with its number" {
    local door HOSTS
    for HOSTS in 4 1; do
        for door in call engine; do
            run ranks "$door" die
            echo "$output"
            [[ $status -eq 137 ]]
            lines_are 3 "$(grep '^noticed at ' <<< "$output")"
            lines_are 3 "$(grep -E '^noticed at .*(rank 2|local rank 2)' <<< "$output")"
            echo "# the last rank notices after $(seconds_between '^dies at ' '^noticed at ') s" \
                "($door, $HOSTS hosts)" >&3
        done
    done
}

# Breaks when only the thread that sees the end of a connection is let go.
@test "all threads leave when a rank dies" {
    write_waiters
    all_threads_leave die 013
}

@test "all threads leave when the wait for a frozen rank is given up" {
    write_waiters
    all_threads_leave freeze 013 HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=2
}

# Breaks when finalising waits for calls, or calls wait on after it.
@test "all threads leave when a rank finalises while they wait" {
    write_waiters
    all_threads_leave finalize 0
}

# Breaks when finalising waits for a blocking call, which nothing ends.
@test "a blocking call ends when its rank finalises" {
    as_root_on login sh -c "cat > $share/finalize.py" << 'PYTHON'
import os
import threading
import time

import numpy as np

import mpi_bridge

mpi_bridge.init()
data = np.ones(4096, "f4")
mpi_bridge.allreduce(data, data)
if mpi_bridge.rank() != 0:
    # Waited for, and does not come.
    time.sleep(8)
    os._exit(0)


def wait() -> None:
    try:
        mpi_bridge.allreduce(data, data)
    except mpi_bridge.MpiBridgeError as error:
        print(f"left: {error}", flush=True)


waiting = threading.Thread(target=wait)
waiting.start()
time.sleep(1)
mpi_bridge.shutdown()
waiting.join()
print("finalised", flush=True)
os._exit(0)
PYTHON
    local nodes
    for nodes in 2 1; do
        run as_user env LD_LIBRARY_PATH="$PREFIX/lib" PYTHONPATH="$PREFIX/lib/batchai/python" \
            OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 \
            srun --nodes="$nodes" --ntasks=2 --mpi="$(slurm_mpi)" --kill-on-bad-exit=0 --time=3 \
            "$PYTHON" "$share/finalize.py"
        echo "$output"
        [[ $output == *"left: "*"mpib_finalize was called"* && $output == *finalised* ]]
    done
}

# Breaks when ranks say that a connection broke, and not what went wrong where.
@test "the first failure is told to all ranks" {
    run ranks call err
    echo "$output"
    [[ $status -ne 0 ]]
    lines_are 4 "$(grep '^noticed at ' <<< "$output")"
    lines_are 4 "$(grep -E '^noticed at .*(MismatchError|makes another call|other arguments)' <<< "$output")"
}
