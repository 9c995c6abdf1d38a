# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What the integration suites share. ctest sets: MINICLUSTER (the command), MINICLUSTER_NAME (the
# shared cluster), PREFIX (the installed tree), PYTHON (with the test requirements), SOURCE, PMIX_RING.

# as_user CMD…: as alice on the login host; standard input and the exit code pass through. What
# hangs is ended, so that a suite always gets to its own clean-up and the next finds idle nodes.
as_user() { timeout --foreground --kill-after=10 180 "$MINICLUSTER" exec -- "$@"; }

# as_root_on HOST CMD…, as_user_on HOST CMD…: login, or h1 … h4.
as_root_on() { "$MINICLUSTER" exec --user root --host "$1" -- "${@:2}"; }
as_user_on() { "$MINICLUSTER" exec --host "$1" -- "${@:2}"; }

# wait_until SECONDS CMD…: repeats CMD until it succeeds; fails, naming it, when time is up.
wait_until() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@"; do
        if ((SECONDS >= deadline)); then
            echo "still not true: $*" >&2
            return 1
        fi
        sleep 0.2
    done
}

# put FILE PATH: copies a file of the machine to a path on the hosts, executable if FILE is.
put() {
    local mode=644
    [[ -x $1 ]] && mode=755
    as_root_on login sh -c 'cat > "$1" && chmod "$2" "$1"' put "$2" "$mode" < "$1"
}

# job_state ID: Slurm's word for the state of a job or step, from accounting.
job_state() { as_user sacct -n -P -X -j "$1" -o State; }

# job_is ID STATE: for wait_until.
job_is() { [[ $(job_state "$1") == "$2" ]]; }

# nodes_idle COUNT: for wait_until.
nodes_idle() { [[ $(as_user sinfo -h -N -p main -t idle -o %N | wc -l) -eq $1 ]]; }

# nothing_is_queued: for wait_until; no job waits, runs or is being cleaned up.
nothing_is_queued() { [[ -z $(as_user squeue -h) ]]; }

# no_node_is_drained: names those that are, or are down.
no_node_is_drained() {
    local drained
    drained=$(as_user sinfo -h -N -p main -t drain,drained,draining,down -o %N)
    if [[ -n $drained ]]; then
        echo "drained: $drained" >&2
        return 1
    fi
}

# lines_are COUNT TEXT: TEXT has COUNT lines; shows it if not.
lines_are() {
    local count
    count=$(printf '%s\n' "$2" | grep -c .)
    if [[ $count -ne $1 ]]; then
        printf 'expected %s lines, got %s:\n%s\n' "$1" "$count" "$2" >&2
        return 1
    fi
}

# of_ranks TEXT: TEXT without slurmstepd's own lines. On a busy machine a PMIx message of Slurm 22.05
# can come while slurmstepd is the user for a moment: it complains of the credential and sends again.
of_ranks() { grep -v '^slurmstepd-' <<< "$1"; }
