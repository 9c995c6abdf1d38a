#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Bob, on all hosts, connects to every port that alice's ranks listen at while they train. Ranks of
# one host have none.

bats_require_minimum_version 1.5.0
load ../integration/lib

share=/shared/attacks-strangers
rate=250 # connections a second on each of four hosts: a thousand in all
# scripts/test --full attacks for longer.
duration=${ATTACK_SECONDS:-$((${BATCHAI_TEST_FULL:-0} ? 30 : 15))}

setup_file() {
    wait_until 60 nodes_idle 4
    as_root_on login install -d -m 1777 "$share"
    put "$SOURCE/tests/attacks/strangers.py" "$share/strangers.py"
    as_user bash -c "cat > $share/train.py" << 'PYTHON'
import hashlib
import sys
import time

import numpy as np

import mpi_bridge
from mpi_bridge import engine

mpi_bridge.init()
random = np.random.default_rng(mpi_bridge.rank())
weights = np.zeros(1 << 16, "f4")
gradient = np.zeros_like(weights)
print("ready", flush=True)
# Bob looks for new ports every second.
time.sleep(2)
began = time.monotonic()
for step in range(int(sys.argv[1])):
    # Whole numbers, whose sum is the same in any order.
    gradient[:] = random.integers(-100, 100, len(gradient)) + np.round(weights)
    engine.call(engine.Kind.ALLREDUCE, gradient, gradient, name="gradient")
    weights -= 0.01 * gradient
seconds = time.monotonic() - began
digest = hashlib.sha256(weights.tobytes()).hexdigest()[:16]
print(f"weights {digest} after {seconds:.2f} s", flush=True)
PYTHON
}

teardown() {
    local host
    for host in 1 2 3 4; do as_root_on "h$host" bash -c 'pkill -KILL -u bob; true'; done
    as_root_on login bash -c 'squeue -h -o %i | xargs -r scancel'
    wait_until 60 nodes_idle 4
}

teardown_file() { as_root_on login rm -rf "$share"; }

# train STEPS [OPTION…]: alice's four ranks; sets $output.
train() {
    run as_user env OMP_NUM_THREADS=1 PYTHONPATH="$PREFIX/lib/batchai/python" \
        LD_LIBRARY_PATH="$PREFIX/lib" srun --ntasks=4 --mpi="$(slurm_mpi)" --kill-on-bad-exit=1 --time=3 "${@:2}" \
        "$PYTHON" "$share/train.py" "$1"
    [[ $status -eq 0 ]] || { echo "$output"; return 1; }
}
weights() { sed -n 's/^weights \([0-9a-f]*\) .*/\1/p' <<< "$1" | sort -u; }
seconds() { sed -n 's/^weights .* after \([0-9.]*\) s$/\1/p' <<< "$1" | sort -n | tail -n 1; }

# attack SECONDS [PORT]: bob on all hosts, in the background; what he says is in strangers.N.
attack() {
    local host
    for host in 1 2 3 4; do
        "$MINICLUSTER" exec --user bob --host "h$host" -- "$PYTHON" "$share/strangers.py" alice "$1" \
            "$rate" "${@:2}" > "$BATS_TEST_TMPDIR/strangers.$host" 2>&1 &
    done
}

# end_attack: bob ends, and what he says is complete. An attack for a fixed time could be over on a busy machine
# before alice's ranks have started.
end_attack() {
    local host
    for host in 1 2 3 4; do as_root_on "h$host" pkill -TERM -u bob -f strangers.py || true; done
    wait
}

# Breaks when strangers can stop a training, change its result, or keep a rank's threads busy.
@test "a training goes on with the same result while strangers connect to all its ports" {
    local steps=$((70 * duration)) alone elsewhere under made
    train "$steps" --nodes=4
    alone=$output
    lines_are 1 "$(weights "$alone")"

    # What that many connections cost the hosts as such.
    attack 170 7777
    train "$steps" --nodes=4
    elsewhere=$output
    for host in 1 2 3 4; do as_root_on "h$host" bash -c 'pkill -KILL -u bob; true'; done
    wait

    attack 170
    train "$steps" --nodes=4
    under=$output
    end_attack
    cat "$BATS_TEST_TMPDIR"/strangers.*
    [[ $(weights "$under") == "$(weights "$alone")" && -n $(weights "$alone") ]]
    [[ $(weights "$elsewhere") == "$(weights "$alone")" ]]
    made=$(sed -n 's/^strangers: \([0-9]*\) connections.*/\1/p' "$BATS_TEST_TMPDIR"/strangers.* |
        awk '{ sum += $1 } END { print sum }')
    ((made > 100 * duration))
    # The library's port and that of the heartbeat, on each host.
    lines_are 4 "$(grep -h ' to 2 ports' "$BATS_TEST_TMPDIR"/strangers.*)"
    echo "# $steps steps: $(seconds "$alone") s alone, $(seconds "$elsewhere") s while bob connects" \
        "elsewhere, $(seconds "$under") s while he connects to the ranks ($made connections)" >&3
}

# Breaks when ranks of one host open a port.
@test "ranks of one host have no port that strangers could connect to" {
    attack 170
    train 200 --nodes=1
    end_attack
    lines_are 4 "$(grep -h 'strangers: 0 connections to 0 ports' "$BATS_TEST_TMPDIR"/strangers.*)"
}
