# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What the integration suites share. ctest sets: MINICLUSTER (the command), MINICLUSTER_NAME (the
# shared cluster), PREFIX (the installed tree), PYTHON (with the test requirements), SOURCE, PMIX_RING.

# as_user CMD…: as alice on the login host; standard input and the exit code pass through. What
# hangs is ended, so that a suite always gets to its own clean-up and the next finds idle nodes.
as_user() { timeout --foreground --kill-after=10 180 "$(program_of_exec)" -- "$@"; }
# as_bob CMD…: the same as bob, who plays the attacks.
as_bob() { timeout --foreground --kill-after=10 180 "$(program_of_exec)" --user bob -- "$@"; }

# as_root_on HOST CMD…, as_user_on HOST CMD…: login, or the host of the node h1 … h4.
as_root_on() { "$(program_of_exec)" --user root --host "$1" -- "${@:2}"; }
as_user_on() { "$(program_of_exec)" --host "$1" -- "${@:2}"; }

# program_of_exec: what `minicluster exec` becomes. Without Python before it, it takes a twentieth of the
# time, of which the suites would spend a third on that.
program_of_exec() { echo "${MINICLUSTER_HOME:-/var/lib/minicluster}/$MINICLUSTER_NAME/enter"; }

# slurm_series: which Slurm the cluster has, such as 22.05.
slurm_series() { as_user srun --version | sed -n 's/^slurm[^ ]* \([0-9]*\.[0-9]*\).*/\1/p'; }
# slurm_is_from SERIES: it is that one or a later one.
slurm_is_from() { [[ ! $(slurm_series) < $1 ]]; }

# slurm_mpi: what srun's --mpi is to be: pmix, or pmi2 where Slurm has no plugin for PMIx.
slurm_mpi() {
    if compgen -G '/usr/lib/*/slurm*/mpi_pmix.so' > /dev/null; then echo pmix; else echo pmi2; fi
}

# pmi_words: what batchai calls that: PMIx or PMI-2.
pmi_words() { if [[ $(slurm_mpi) == pmix ]]; then echo PMIx; else echo PMI-2; fi; }

# needs FILE WHAT: skips the test where there is no such file. Debian 12 and 13 have all that tests need,
# so that it fails there.
needs() {
    [[ -n $(compgen -G "$1") ]] && return
    if [[ $(. /etc/os-release && echo "$VERSION_CODENAME") == @(bookworm|trixie) ]]; then
        echo "there is no $1" >&2
        return 1
    fi
    skip "this system has no $2"
}
# needs_pmix: skips the test if Slurm has no plugin for PMIx. needs_rclone: the same for rclone.
needs_pmix() { needs '/usr/lib/*/slurm*/mpi_pmix.so' "plugin for PMIx in its Slurm"; }
needs_rclone() { needs /usr/bin/rclone "package of rclone"; }

# site_lua: standard input, which is a site.lua, with the PMI that Slurm has.
site_lua() {
    if [[ $(slurm_mpi) == pmix ]]; then cat; else sed '0,/^return *{/s//& mpi = "pmi2", /'; fi
}
# reset_site: makes /etc/batchai/site.lua what a new cluster has: nothing, unless it must name the PMI.
reset_site() {
    as_root_on login rm -f /etc/batchai/site.lua
    [[ $(slurm_mpi) == pmix ]] ||
        site_lua <<< 'return {}' | as_root_on login sh -c 'umask 022; cat > /etc/batchai/site.lua'
}

# own_cluster SUFFIX OPTION…: in setup_file, starts a cluster of the suite's own, which later commands mean.
# CMakeLists.txt ends it if the suite does not.
own_cluster() {
    MINICLUSTER_NAME=$MINICLUSTER_NAME$1
    export MINICLUSTER_NAME
    "$MINICLUSTER" up --prefix "$PREFIX" "${@:2}"
}

# site_has TRAIT: the cluster has it (`minicluster up --with`).
site_has() {
    jq -e --arg trait "$1" '.traits | index($trait)' \
        "${MINICLUSTER_HOME:-/var/lib/minicluster}/$MINICLUSTER_NAME/cluster.json" > /dev/null
}

# plugstack_file: the file on the login host that has our line.
plugstack_file() {
    if site_has configless; then echo /etc/slurm/plugstack.conf; else echo /etc/slurm/plugstack.conf.d/batchai.conf; fi
}

# slurm_conf_elsewhere SCRIPT: the site's slurm.conf after this script of sed, for SLURM_CONF. Beside such a
# copy there is no plugstack.conf.
slurm_conf_elsewhere() {
    as_user sed -e '/^PlugStackConfig=/d' -e "$1" /etc/slurm/slurm.conf && echo PlugStackConfig=/etc/slurm/plugstack.conf
}

# slurmd_pattern: what pgrep -x finds slurmd by. That of 26.05 executes its own program again when it is
# reconfigured, which Debian calls slurmd-wlm.
slurmd_pattern() { echo 'slurmd(-wlm)?'; }

# slurmd_log HOST: where its slurmd writes.
slurmd_log() { echo "${MINICLUSTER_HOME:-/var/lib/minicluster}/$MINICLUSTER_NAME/log/$1-slurmd.log"; }

# pid_file_of_slurmd NODE: the file on its host that has the number of its slurmd.
pid_file_of_slurmd() {
    if site_has slurmds; then echo "/run/slurm/slurmd-$1.pid"; else echo /run/slurm/slurmd.pid; fi
}

# kill_slurmd NODE: ends its slurmd, and nothing else.
kill_slurmd() {
    # shellcheck disable=SC2016 # for the shell on that host
    as_root_on "$1" bash -c 'pid=$(cat "$1"); kill -KILL "$pid"; while kill -0 "$pid" 2> /dev/null; do sleep 0.1; done' \
        kill "$(pid_file_of_slurmd "$1")"
}

# address_of NODE: that of its host.
address_of() {
    as_user bash -c 'getent hosts "$(scontrol show node "$1" | grep -oP "NodeAddr=\K\S+")"' address "$1" | cut -d ' ' -f 1
}

# start_slurmd NODE: starts the slurmd of a node again, with the same log.
start_slurmd() { "$MINICLUSTER" start --host "$1" 3>&- 4>&-; }

# host_dies HOST: what a crash ends, and what the next boot does not find. A crash ends all at the same
# moment, and nobody sees another's end: each srun has a child that waits for srun's death and then
# tells slurmctld to kill the step, here the watch on the other node. Therefore all are stopped first.
# Children die before their parents, because the kernel lets a stopped process go on when the last
# parent outside its process group is gone.
host_dies() {
    # shellcheck disable=SC2016 # for the shell on that host
    as_root_on "$1" bash -c 'all=$( (pgrep "slurmd|slurmstepd"; pgrep -u alice) | sort -rn)
        kill -STOP $all
        kill -KILL $all
        rm -rf /var/lib/slurm/slurmd/* /tmp/batchai-*'
}

# host_loses_power HOST: it dies, and no connection to it breaks.
host_loses_power() {
    as_root_on "$1" ip link set eth0 down
    host_dies "$1"
}

# host_lives HOST: one that has died is there again, and Slurm knows it.
host_lives() {
    as_root_on "$1" ip link set eth0 up
    as_root_on "$1" pgrep -x "$(slurmd_pattern)" > /dev/null || start_slurmd "$1"
    wait_until 60 node_answers "$1"
}
node_answers() {
    # Slurm refuses this for a node that is not down.
    as_root_on login scontrol update nodename="$1" state=resume 2> /dev/null || true
    [[ $(as_user sinfo -h -n "$1" -o %t | sort -u) =~ ^(idle|alloc|mix|comp)$ ]]
}

# restart_slurmds: makes the slurmds of all compute hosts younger than the files of settings. An epilog
# that runs would be killed with them, and leave its job's directories.
restart_slurmds() {
    local host
    wait_until 60 nothing_completes
    for host in h1 h2 h3 h4; do
        kill_slurmd "$host"
        start_slurmd "$host"
    done
    wait_until 60 nodes_idle 4
}

# wait_until SECONDS CMD…: repeats CMD until it succeeds; when time is up it fails, names CMD and
# shows what the last try said.
wait_until() {
    local deadline=$((SECONDS + $1)) said
    shift
    said=$(mktemp)
    until "$@" > "$said" 2>&1; do
        if ((SECONDS >= deadline)); then
            echo "still not true: $*" >&2
            cat "$said" >&2
            rm -f "$said"
            return 1
        fi
        sleep 0.2
    done
    rm -f "$said"
}

# prints_nothing CMD…: CMD succeeds and prints nothing. A check that something is gone must not pass
# because the command that looks for it could not be run.
prints_nothing() {
    local printed
    printed=$("$@") || { echo "exit code $?: $*" >&2; return 1; }
    if [[ -n $printed ]]; then
        printf '%s prints:\n%s\n' "$*" "$printed" >&2
        return 1
    fi
}

# lines_like PATTERN CMD…: the lines that CMD prints that match the extended regular expression; none
# is not a failure, but a failing CMD is. lines_unlike: the others.
lines_like() { filtered -E "$@"; }
lines_unlike() { filtered -vE "$@"; }
filtered() {
    local printed
    printed=$("${@:3}") || return
    grep "$1" -e "$2" <<< "$printed" || [[ $? -eq 1 ]]
}

# gloo_has_crashed NAME: a rank of the job ended as one of torch 2.15 with Gloo does now and then, also
# where nothing of ours is loaded: a thread of Gloo's that gives back the last tensors while Python ends is
# ended in a destructor (github.com/pytorch/pytorch/issues/190489).
gloo_has_crashed() {
    grep -q "terminate called without an active exception" < <(batchai job logs "$1" --stderr 2> /dev/null)
}

# wait_past_gloo NAME: waits for the job, and returns its exit code. A job that Gloo itself has crashed is
# created again, by the suite's function "create", at most three times; what its ranks printed is shown.
wait_past_gloo() {
    local code tries
    for tries in 1 2 3 4; do
        code=0
        batchai job wait --name "$1" || code=$?
        ((code != 0 && code != 124 && tries < 4)) && gloo_has_crashed "$1" || return "$code"
        echo "Gloo has crashed, try $tries:"
        batchai job logs "$1"
        batchai job delete --name "$1" --yes || return
        create "$1" || return
    done
}

# with_node_names: standard input, with the names of nodes for those of hosts, which differ on some sites.
with_node_names() { sed -E 's/\bnode-(h[1-9])\b/\1/g'; }

# put FILE PATH: copies a file of the machine to a path on the hosts, executable if FILE is.
put() {
    local mode=644
    [[ -x $1 ]] && mode=755
    as_root_on login sh -c 'cat > "$1" && chmod "$2" "$1"' put "$2" "$mode" < "$1"
}

# job_state ID: Slurm's word for the state of a job or step, from accounting.
job_state() { as_user sacct -n -P -X -j "$1" -o State; }

# next_job: the number that the controller gives the next job. Neither accounting nor the queue tells what
# was submitted: slurmdbd hears of a job a moment later, and earlier jobs leave the queue.
next_job() { as_user scontrol show config | grep -oP '^NEXT_JOB_ID *= *\K\d+$'; }

# job_is ID STATE: for wait_until.
job_is() { [[ $(job_state "$1") == "$2" ]]; }

# nodes_idle COUNT: for wait_until; nodes whose epilogs are over as well. (sinfo --states=idle also
# lists those that are completing a job.)
nodes_idle() {
    local states
    states=$(as_user sinfo -h -N -p main -o %t) || return
    [[ $(grep -cx idle <<< "$states") -eq $1 ]]
}

# nothing_is_queued: for wait_until; no job waits, runs or is being cleaned up.
nothing_is_queued() { prints_nothing as_user squeue -h; }
nothing_completes() { prints_nothing as_root_on login squeue -h -t completing; }

# is_pending ID: for wait_until; the job is in the queue. One whose last run is being cleaned up is
# COMPLETING.
is_pending() { [[ $(as_user squeue -h -r -j "$1" -o %T) == PENDING ]]; }

# start_again ID: a job that is queued again need not wait for the two minutes of Slurm. The steps of
# its next attempt have the same numbers: when it was started again within a second, Slurm took the
# end of a step for that of its successor.
start_again() {
    wait_until 120 may_start_again "$1"
    as_root_on login scontrol update "job=$1" StartTime=now
}

# may_start_again ID: for wait_until. A job that has not run yet is pending, too.
may_start_again() { ended_a_while_ago "$1" && is_pending "$1"; }

# ended_a_while_ago ID: for wait_until; the last run of a job that is queued again ended more than two
# seconds ago, by the clock that all hosts share.
ended_a_while_ago() {
    local ends
    ends=$(as_user sacct -n -P -X -D -j "$1" -o End | grep -v Unknown | sort | tail -n 1)
    [[ -n $ends ]] && (($(date +%s) - $(date -d "$ends" +%s) > 2))
}

# has_ended ID: for wait_until; the job is no longer queued. All jobs are asked for: squeue fails when
# it is asked for one that slurmctld has forgotten.
has_ended() { prints_nothing lines_like "^$1\$" as_user squeue -h -o %A; }

# cancel_jobs: ends alice's jobs. What they leave is cleaned up a little later: nothing_is_queued.
cancel_jobs() {
    local jobs
    jobs=$(as_user squeue -h -u alice -o %A | sort -u) || return
    # shellcheck disable=SC2086 # one argument a job
    [[ -z $jobs ]] || as_user scancel $jobs
}

# end_jobs: ends alice's jobs, and waits until Slurm has cleaned up after them: nothing writes into their
# directories any more.
end_jobs() { cancel_jobs && wait_until 60 prints_nothing as_user squeue -h -u alice; }

# container_processes_on HOST: those that hold containers, and their file systems.
container_processes_on() {
    lines_like 'batchai-(node|keeper)|squashfuse' as_root_on "$1" ps -eo args=
}

# containers_on HOST, job_directories_on HOST: what is below the private directories of users.
containers_on() { as_root_on "$1" find /tmp -maxdepth 2 -path '/tmp/batchai-*/container-*'; }
job_directories_on() {
    as_root_on "$1" find /tmp -maxdepth 2 -path '/tmp/batchai-*/*'
}

# wait_until_clean HOST: no container and no process of one is there any more.
wait_until_clean() {
    wait_until 60 prints_nothing container_processes_on "$1"
    wait_until 60 prints_nothing containers_on "$1"
}

# processes_of_user_on HOST: alice's, one line each.
processes_of_user_on() { lines_like '^alice ' as_root_on "$1" ps -eo user:32=,pid=,args=; }

# nodes_are_clean HOST…: no process of the user and no directory of a job on any of them.
nodes_are_clean() {
    local host
    for host in "$@"; do
        prints_nothing processes_of_user_on "$host" || return
        prints_nothing job_directories_on "$host" || return
    done
}

# make_home NAME: sets and makes HOME_DIR, a directory of the suite's own that all hosts see. The
# records of `batchai` below are in it.
make_home() {
    export HOME_DIR="/home/alice/$1-$$"
    as_user mkdir -p "$HOME_DIR"
}
remove_home() {
    end_jobs || return
    as_user rm -rf "$HOME_DIR"
}

# batchai WORDS…: in HOME_DIR, with records of its own; standard input passes through. A suite that
# needs another site or home has a function of its own.
batchai() { batchai_with '' "$@"; }
# batchai_with "NAME=VALUE …" WORDS…: with these variables besides.
batchai_with() {
    # shellcheck disable=SC2016 # for the inner shell
    as_user bash -c 'cd "$1" && exec env BATCHAI_HOME="$1/records" $2 "${@:3}"' \
        batchai "$HOME_DIR" "$1" "$PREFIX/bin/batchai" "${@:2}"
}

# block_of PAGE KIND [NUMBER]: the first block of docs/PAGE that is marked so, or the one with that number.
block_of() {
    awk -v mark="\`\`\`$2" -v number="${3:-1}" \
        '$0 == mark { inside = ++n == number; next } /^```$/ { inside = 0 } inside' "$SOURCE/docs/$1" | grep .
}

# create NAME [FILE]: submits the job of $HOME_DIR/NAME.json, or FILE there.
create() { batchai job create --name "$1" --config-file "${2:-$1.json}" --output none; }

# state_is NAME STATE: for wait_until; Batch AI's word for the state of a job.
state_is() { [[ $(batchai job show --name "$1" --query executionState --output tsv) == "$2" ]]; }

# write_home FILE: standard input to a file of HOME_DIR. A site.lua gets the PMI that Slurm has.
write_home() {
    if [[ $1 == site.lua ]]; then site_lua; else cat; fi | as_user bash -c "cat > '$HOME_DIR/$1'"
}

# write_mpi_job FILE RANKS COMMAND [MORE]: a job file in HOME_DIR with a rank on each of its nodes, and more
# properties as JSON.
write_mpi_job() {
    jq -n --arg logs "$HOME_DIR/logs" --argjson ranks "$2" --arg command "$3" --argjson more "${4:-{\}}" \
        '{properties: ({nodeCount: $ranks, stdOutErrPathPrefix: $logs,
            customMpiSettings: {commandLine: $command, processCount: $ranks}} + $more)}' | write_home "$1"
}

# output_of NAME [FILE]: what the ranks of a job have written to standard output.
output_of() { batchai job file stream --job "$1" --file-name "${2:-stdout.txt}"; }

# failure_of NAME: the first error of a job as {exitCode, code, message, Node, Rank, …}.
failure_of() {
    batchai job show --name "$1" --query executionInfo |
        jq '.errors[0] as $error | {exitCode, code: $error.code, message: $error.message}
            + ([$error.details[]? | {(.name): .value}] | add // {})'
}

# no_node_is_drained: names those that are, or are down.
no_node_is_drained() {
    local drained
    drained=$(as_user sinfo -h -N -p main -t drain,drained,draining,down -o %N) || return
    if [[ -n $drained ]]; then
        echo "drained: $drained" >&2
        return 1
    fi
}

# lines_are COUNT TEXT: TEXT has COUNT lines; shows it if not.
lines_are() {
    local count
    count=$(grep -c . <<< "$2" || true)
    if [[ $count -ne $1 ]]; then
        printf 'expected %s lines, got %s:\n%s\n' "$1" "$count" "$2" >&2
        return 1
    fi
}

# of_ranks TEXT: TEXT without lines of Slurm's own. srun waits while a node is still completing another
# job. On a busy machine a PMIx message of Slurm 22.05 can come while slurmstepd is the user for a
# moment: it complains of the credential and sends again.
of_ranks() {
    grep -vE '^slurmstepd-|^srun: job [0-9]+ (queued and waiting for|has been allocated) resources$' <<< "$1"
}
