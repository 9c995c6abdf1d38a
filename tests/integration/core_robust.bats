#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# libmpi_bridge in surroundings that are not as they should be: started in the wrong way, in containers,
# on hosts with odd interfaces, ended by signals. MPI_BRIDGE_ENDINGS is a program of this build; the
# library is the installed one.

bats_require_minimum_version 1.5.0
load lib

share=/shared/core-robust-test

setup_file() {
    as_root_on login install -d -m 777 "$share"
    put "$MPI_BRIDGE_ENDINGS" "$share/endings"
    # What a rank has left that was killed while it started goes with the next ranks that share its host.
    local host
    for host in 1 2 3 4; do as_root_on "h$host" find /dev/shm -name 'mpi_bridge.*' -delete; done
    # hiding DIRECTORY… -- CMD…: CMD under the user's own id, in namespaces where the directories
    # are empty; as in a container that does not share them.
    as_root_on login sh -c "cat > $share/hiding && chmod 755 $share/hiding" << 'SCRIPT'
#!/bin/bash
exec unshare -rm bash -c '
    user=$1 group=$2; shift 2
    while [[ $1 != -- ]]; do mount -t tmpfs none "$1" || exit 99; shift; done; shift
    exec unshare -U --map-user="$user" --map-group="$group" "$@"' \
    hiding "$(id -u)" "$(id -g)" "$@"
SCRIPT
}

teardown_file() { as_root_on login rm -rf "$share"; }

# step OPTION… CMD…: a step with a time limit, whose ranks talk over TCP only.
step() {
    as_user env LD_LIBRARY_PATH="$PREFIX/lib" UCX_TLS=tcp,self srun --time=2 "$@"
}

ranks() { step --nodes="$((${1} < 4 ? ${1} : 4))" --ntasks="$1" --mpi="$(slurm_mpi)" "${@:2}"; }

shared_memory_is_clean() {
    local host
    for host in 1 2 3 4; do
        prints_nothing lines_like 'mpi_bridge\.' as_root_on "h$host" ls /dev/shm || return
    done
}

# Breaks when tasks that do not find each other each train alone, or are refused without the remedy.
@test "tasks started without PMIx are refused and told how to start" {
    local way ways=("" --mpi=none)
    # Where PMIx is the default, only who asks for none has none.
    if site_has pmix; then ways=(--mpi=none); fi
    for way in "${ways[@]}"; do
        # shellcheck disable=SC2086
        run step --ntasks=2 $way "$share/endings" cycles 11
        echo "$output"
        [[ $status -ne 0 && $output == *"started 2 processes without PMIx"*"srun --mpi=pmix"* ]]
    done
    [[ $output == *"or with --mpi=pmi2"* ]]
    run step --ntasks=2 --mpi=pmi2 env -u PMI_FD "$share/endings" cycles 11
    echo "$output"
    [[ $status -ne 0 && $output == *"PMI_* variables did not reach this process"* ]]
    [[ $(slurm_mpi) == pmix ]] || return 0
    run step --ntasks=2 --mpi=pmix env -u PMIX_RANK "$share/endings" cycles 11
    echo "$output"
    [[ $status -ne 0 && $output == *"PMIX_* variables did not reach this process"* ]]
}

# Breaks when another launcher's processes are taken for singletons.
@test "processes of MPICH's launcher are refused" {
    command -v mpirun.mpich || skip "MPICH is not installed"
    run as_user env LD_LIBRARY_PATH="$PREFIX/lib" mpirun.mpich -n 2 "$share/endings" cycles 11
    echo "$output"
    [[ $status -ne 0 && $output == *"a PMI launcher"*"srun --mpi=pmix"* ]]
}

# Breaks when a helper program in a batch script is refused, or runs alone without a word.
@test "a program in a batch script runs alone and says so" {
    run as_user sbatch --wait --ntasks=4 --time=2 --output="$share/batch.out" --wrap \
        "LD_LIBRARY_PATH=$PREFIX/lib $share/endings cycles 11"
    [[ $status -eq 0 ]]
    run as_user cat "$share/batch.out"
    echo "$output"
    [[ $output == *"alone as rank 0 of 1, though its Slurm job has 4 tasks"* ]]
    [[ $output == *"11 cycles"* ]]
}

# Breaks when a container must share the PMIx server's files or MUNGE's socket, or libpmix complains.
@test "ranks find each other without the PMIx server's files and without MUNGE" {
    run --separate-stderr ranks 4 "$share/hiding" /var/lib/slurm /run/munge /tmp -- \
        "$share/endings" cycles 11
    # shellcheck disable=SC2154
    echo "$output$stderr"
    [[ $status -eq 0 && $stderr != *PMIX* ]]
    lines_are 4 "$output"
}

# Breaks when the conversation with Slurm's PMI-2 is started anew, or keeps what an earlier use said.
@test "ranks of Slurm's PMI-2 can initialise and finalise often" {
    run step --nodes=4 --ntasks=8 --mpi=pmi2 "$share/endings" cycles 11
    echo "$output"
    [[ $status -eq 0 ]]
    lines_are 8 "$(of_ranks "$output")"
}

# Breaks when ranks of one node take themselves for the only one there, or when what is not Slurm's
# socket is taken for it.
@test "what Slurm's PMI-2 does not tell the ranks is an error with its remedy" {
    as_user sh -c "printf 'h1\nh2\nh1\nh2\n' > /tmp/places"
    run as_user env LD_LIBRARY_PATH="$PREFIX/lib" SLURM_HOSTFILE=/tmp/places \
        srun --time=2 --ntasks=4 --distribution=arbitrary --mpi=pmi2 "$share/endings" cycles 11
    echo "$output"
    if slurm_is_from 26.05; then
        # From 26.05 on, Slurm's PMI-2 also says which ranks share a node when the user places them.
        [[ $status -eq 0 ]]
        lines_are 4 "$(grep '11 cycles' <<< "$output")"
    else
        [[ $status -ne 0 && $output == *"which ranks share a node with this one (0,2)"*"--mpi=pmix"* ]]
    fi
    # shellcheck disable=SC2016 # for the inner shell
    run step --ntasks=2 --mpi=pmi2 bash -c 'eval "exec $PMI_FD< /dev/null"; exec "$@"' bash \
        "$share/endings" cycles 11
    echo "$output"
    [[ $status -ne 0 && $output == *"(PMI_FD) is not the socket of Slurm's PMI-2 server"* ]]
}

# Breaks when a failed PMIx_Init leaves the user to guess.
@test "a server that does not answer is named with both versions" {
    needs_pmix
    # shellcheck disable=SC2016
    run ranks 1 sh -c 'for name in 41 4 3 21 2; do
            export "PMIX_SERVER_URI$name=pmix-server.1;tcp4://127.0.0.1:1"
        done
        export PMIX_VERSION=99.1.2; exec "$@"' sh "$share/endings" cycles 11
    echo "$output"
    [[ $status -eq 1 && $output == *"PMIx client library "*", server 99.1.2 "* ]]
    [[ $output == *"the versions differ"*"tcp4://127.0.0.1:1"* ]]
}

# Breaks when UCX takes a container bridge, which has the same address on every host, or when nobody
# is told which interface is in use.
@test "the interface between the hosts is taken and printed, not a container's bridge" {
    local host
    for host in 1 2; do
        as_root_on "h$host" sh -c 'ip link add docker0 type bridge && ip link set docker0 up &&
            ip address add 172.17.0.1/16 dev docker0'
    done
    run ranks 2 env MPI_BRIDGE_LOG=info "$share/endings" cycles 11
    for host in 1 2; do as_root_on "h$host" ip link delete docker0; done
    echo "$output"
    [[ $status -eq 0 && $output == *"rank 0: network: eth0: eth0 (10."*"launcher of the step"* ]]
    [[ $output != *"network: docker0"* ]]
}

# Breaks when the user's choice is overruled.
@test "UCX_NET_DEVICES is honoured" {
    run ranks 2 env MPI_BRIDGE_LOG=info UCX_NET_DEVICES=eth0 "$share/endings" cycles 11
    echo "$output"
    [[ $status -eq 0 && $output == *"network: eth0, as UCX_NET_DEVICES says"* ]]
}

# Breaks when ranks that use different networks hang, or leave the user to guess.
@test "ranks that use different networks are told so" {
    # shellcheck disable=SC2016
    run ranks 2 sh -c 'if [ "$SLURM_PROCID" = 0 ]; then export MPI_BRIDGE_NETWORK=ucx; fi
        export MPI_BRIDGE_TIMEOUT_SECONDS=20; exec "$@"' sh "$share/endings" cycles 11
    echo "$output"
    [[ $status -ne 0 && $output == *"uses the network"*"set MPI_BRIDGE_NETWORK"* ]]
}

# Breaks when a signal is taken for a crash (Slurm kills all then, and srun shows SIGKILL), when its
# number is lost, or when the others hang.
@test "a rank ended by a signal shows it and the others notice" {
    local number
    for number in 15 2; do
        run ranks 4 --kill-on-bad-exit=0 "$share/endings" signal "$number"
        echo "$output"
        [[ $status -eq $((128 + number)) ]]
        lines_are 3 "$(grep '^noticed: ' <<< "$output")"
    done
}

# Breaks likewise when an uncaught exception ends a rank.
@test "a rank ended by an uncaught exception shows SIGABRT and the others notice" {
    run ranks 4 --kill-on-bad-exit=0 sh -c "ulimit -c 0; exec $share/endings throw"
    echo "$output"
    [[ $status -eq 134 ]]
    lines_are 3 "$(grep '^noticed: ' <<< "$output")"
}

# Breaks when the handler of a signal keeps a rank alive until Slurm kills it.
@test "scancel and an interrupt of srun end all ranks within seconds" {
    local id
    id=$(as_user sbatch --parsable --nodes=4 --ntasks=8 --time=2 --output="$share/wait.out" --wrap \
        "LD_LIBRARY_PATH=$PREFIX/lib UCX_TLS=tcp,self srun --mpi=$(slurm_mpi) $share/endings wait")
    wait_until 60 ready_lines_are 8
    as_user scancel "$id"
    wait_until 60 nodes_idle 4
    run as_user cat "$share/wait.out"
    echo "$output"
    # Slurm kills what has not ended by itself.
    [[ $output == *ready*CANCELLED* && $output != *Killed* ]]

    as_user rm "$share/wait.out"
    # Programs that a script starts in the background ignore Ctrl-C. srun ends at the second within a second.
    as_user bash -c "LD_LIBRARY_PATH=$PREFIX/lib UCX_TLS=tcp,self env --default-signal=INT \
        srun --nodes=4 --ntasks=8 --mpi=$(slurm_mpi) $share/endings wait < /dev/null > $share/wait.out 2>&1 &
        until [[ \$(grep -cs ^ready $share/wait.out) -eq 8 ]]; do kill -0 \$! || exit; sleep 0.1; done
        while kill -INT \$! 2> /dev/null; do sleep 0.3; done"
    run as_user cat "$share/wait.out"
    echo "$output"
    # They were there when the interrupt came, and it has reached them.
    ready_lines_are 8
    [[ $output == *"sending Ctrl-C"* ]]
    wait_until 60 nodes_idle 4
    shared_memory_is_clean
}
ready_lines_are() { [[ $(as_user grep -c '^ready' "$share/wait.out") -eq $1 ]]; }

# Breaks when anything is left of an initialisation.
@test "a hundred initialisations leave nothing behind, alone and on four ranks" {
    run as_user env LD_LIBRARY_PATH="$PREFIX/lib" "$share/endings" cycles 100
    echo "$output"
    [[ $status -eq 0 && $output == *"100 cycles"* ]]
    run ranks 4 --nodes=2 "$share/endings" cycles 100
    echo "$output"
    [[ $status -eq 0 ]]
    lines_are 4 "$(of_ranks "$output")"
    shared_memory_is_clean
}
