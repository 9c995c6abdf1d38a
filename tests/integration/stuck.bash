# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Jobs that stand still for reasons that are known here: the scripts of stacks/.

# Ends the jobs of a test, and looks whether anything is left of them.
end_hanging_jobs() {
    # A child that the kernel keeps from its parent is not found by Slurm when the parent is killed.
    # shellcheck disable=SC2016 # for the inner shell
    as_user sh -c 'for fifo in "$1"/fifo-*; do [ ! -p "$fifo" ] || : <> "$fifo"; done' end "$HOME_DIR"
    cancel_jobs
    wait_until 60 nothing_is_queued
    wait_until 60 nodes_are_clean h1 h2 h3 h4
    remove_home
}

# hangs NAME NODES RANKS SCRIPT [MORE]: a job whose ranks run a script of this suite, with Python and the
# test's frameworks. Returns when each rank has said that it is there.
hangs() {
    local script=$4
    write_home "$script" < "$SOURCE/tests/integration/stacks/$script"
    jq -n --arg home "$HOME_DIR" --arg command "exec $PYTHON $HOME_DIR/$script" --argjson nodes "$2" \
        --argjson ranks "$3" --argjson more "${5:-{\}}" '{properties: ({nodeCount: $nodes,
            stdOutErrPathPrefix: ($home + "/logs"), environmentVariables: [
                {name: "OMP_NUM_THREADS", value: "1"}, {name: "PYTHONDONTWRITEBYTECODE", value: "1"},
                {name: "MARKS", value: $home}],
            customMpiSettings: {commandLine: $command, processCount: $ranks}} + $more)}' | write_home "$1.json"
    create "$1"
    wait_until 120 are_there "$3"
}
# hangs_in_c NAME NODES RANKS PROGRAM [MORE]: the same for a program of MPI. It sends over UCX, because
# Open MPI's own TCP needs more of the hosts' network.
hangs_in_c() {
    mpicc.openmpi -g -Wall -Werror -o "$BATS_TEST_TMPDIR/$4" "$SOURCE/tests/integration/stacks/$4.c"
    as_root_on login install -d -o alice "/shared/$4"
    put "$BATS_TEST_TMPDIR/$4" "/shared/$4/$1"
    jq -n --arg home "$HOME_DIR" --arg command "exec /shared/$4/$1" --argjson nodes "$2" --argjson ranks "$3" \
        --argjson more "${5:-{\}}" '{properties: ({nodeCount: $nodes, stdOutErrPathPrefix: ($home + "/logs"),
            environmentVariables: [{name: "MARKS", value: $home}, {name: "OMPI_MCA_pml", value: "ucx"},
                {name: "OMPI_MCA_pml_ucx_tls", value: "any"}, {name: "UCX_TLS", value: "tcp,self"}],
            customMpiSettings: {commandLine: $command, processCount: $ranks}} + $more)}' | write_home "$1.json"
    create "$1"
    wait_until 120 are_there "$3"
}
are_there() { [[ $(as_user find "$HOME_DIR" -maxdepth 1 -name 'there-*' | wc -l) -eq $1 ]]; }

# says TEXT: it is in what was printed.
# shellcheck disable=SC2154 # "output" is that of bats
says() {
    grep -qF -- "$1" <<< "$output" || {
        printf 'not said: %s\nof:\n%s\n' "$1" "$output" >&2
        return 1
    }
}

# line_of SCRIPT TEXT: the number of the line that has the text.
line_of() { grep -nF -- "$2" "$SOURCE/tests/integration/stacks/$1" | head -n 1 | cut -d: -f1; }
