#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Twenty jobs that stand still in twenty ways. The alarm of "watch" names the rank, the node and the line
# of each. Four ranks on two nodes; `ctest -C full`, because it takes seven minutes.

bats_require_minimum_version 1.5.0
load lib
load stuck

setup() { make_home "hangs-$BATS_TEST_NUMBER"; }
teardown() { end_hanging_jobs; }

# planted WAY RANK PLACE [NAME=VALUE…]: the alarm of such a job is about the rank, where the text is.
planted() {
    local way=$1 rank=$2 place=$3 more
    more=$(jq -n --arg way "$way" --arg rank "$rank" --arg path "$PREFIX/lib/batchai/python" --arg home "$HOME_DIR" '
        {watch: {silence: "PT10S"}, environmentVariables: ([{name: "OMP_NUM_THREADS", value: "1"},
            {name: "TF_CPP_MIN_LOG_LEVEL", value: "2"}, {name: "PYTHONPATH", value: $path},
            {name: "PYTHONDONTWRITEBYTECODE", value: "1"}, {name: "MARKS", value: $home},
            {name: "WAY", value: $way}, {name: "CULPRIT", value: $rank}])}')
    hangs "$way" 2 4 planted.py "$more"
    blames "$way" "$rank" "$place"
}

# blames JOB RANK PLACE
blames() {
    wait_until 120 has_alarm "$1"
    run -0 batchai job show --name "$1" --query executionInfo.alarms -o json
    echo "$output"
    jq -e --argjson rank "$2" --arg node "h$(($2 / 2 + 1))" --arg place "$3" 'length == 1 and
        (.[0] | .rank == $rank and .node == $node and (.where | contains($place)))' <<< "$output"
}
has_alarm() { [[ $(batchai job show --name "$1" --query 'length(executionInfo.alarms)' -o tsv) == 1 ]]; }

# at PLACE: the line with this comment.
at() { echo "planted.py:$(line_of planted.py "# $1")"; }

@test "a rank of torch and Gloo sleeps" { planted gloo-sleep 3 "$(at sleep) in sleep()"; }
@test "a rank of torch and Gloo waits for a lock that another thread holds" { planted gloo-lock 2 "$(at lock) in lock()"; }
@test "a rank of torch and Gloo opens a pipe into which nobody writes" { planted gloo-fifo 1 "$(at fifo) in fifo()"; }
@test "a rank of torch and Gloo writes to a program that does not read" { planted gloo-pipe 3 "$(at pipe) in pipe()"; }
@test "a rank of torch and Gloo is stopped" { planted gloo-stop 2 'stopped by a signal'; }
@test "a worker of a rank of torch and Gloo has died" { planted gloo-worker 0 "$(at worker) in worker()"; }
@test "a thread of a rank of torch and Gloo has swallowed its error" { planted gloo-thread 3 "$(at thread) in thread()"; }
@test "a rank of torch and Gloo has left out a collective" { planted gloo-missing 2 "$(at missing) in in_torch()"; }
@test "a rank of torch and Gloo has another order of collectives" { planted gloo-order 1 "$(at order) in in_torch()"; }
@test "a rank of torch and Gloo is in the barrier of a sub-group" { planted gloo-subgroup 0 "$(at subgroup) in in_torch()"; }
@test "a rank of torch and Gloo receives what nobody sends" { planted gloo-receive 3 "$(at receive) in in_torch()"; }
@test "a rank of torch and mpi_bridge opens a pipe into which nobody writes" { planted ours-fifo 3 "$(at fifo) in fifo()"; }
@test "a rank of torch and mpi_bridge has left out a collective" { planted ours-missing 2 "$(at missing) in in_torch()"; }
@test "a rank of torch and mpi_bridge has another order of collectives" { planted ours-order 1 "$(at order) in in_torch()"; }
@test "a rank of horovod.torch does not come" { planted horovod-late 1 "$(at sleep) in sleep()"; }
@test "a rank of horovod.torch has another tensor" { planted horovod-names 2 "$(at names) in in_horovod()"; }
@test "a rank of horovod.tensorflow does not come" { planted tfhorovod-late 3 "$(at sleep) in sleep()"; }
@test "a worker of MultiWorkerMirroredStrategy does not come" { planted tensorflow-late 2 "$(at sleep) in sleep()"; }
@test "a process of JAX does not come" { planted jax-late 1 "$(at sleep) in sleep()"; }

# Ranks of Open MPI spin while they wait, so they are never silent.
@test "a rank of an MPI program does not come" {
    needs_pmix
    hangs_in_c late 2 4 late '{"watch": {"progress": {"pattern": "^step", "within": "PT10S"}}}'
    blames late 2 "late.c:$(line_of late.c 'nanosleep(&pause') in be_late()"
}
