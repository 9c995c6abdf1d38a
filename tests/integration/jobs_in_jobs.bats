#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Jobs that are submitted from within other jobs. Each is a job of its own: it gets nothing that the
# job around it has for itself, and does nothing to that job.

bats_require_minimum_version 1.5.0
load lib

share=/shared/nested
# Where a job can be submitted from, and what is submitted there.
outers=(plain ours rank array requeued salloc shell)
inners=(batch job array create salloc srun bare)

setup_file() {
    as_root_on login install -d -m 1777 "$share"
    write_files
    submit_outers
    # What waits for the two minutes of Slurm after a requeue.
    start_again "$(id_of requeued)"
    local outer
    for outer in "${outers[@]}"; do
        wait_until 170 as_user test -e "$share/$outer.done" || show_outer "$outer"
    done
}

teardown_file() {
    as_user touch "$share/end"
    cancel_jobs
    wait_until 60 nodes_idle 4 || return 1
    as_root_on login rm -rf "$share"
}

# here CMD…: as a user of the suite's site, in its directory.
here() {
    as_user env -C "$share" "BATCHAI_SITE=$share/site.lua" "BATCHAI_HOME=$share/records" \
        "PATH=$PREFIX/bin:/usr/bin:/bin" "$@"
}

write_files() {
    as_user mkdir -p "$share/data"
    site_lua << LUA | as_user bash -c "cat > $share/site.lua"
return { exclusive = false, named_mounts = { data = { directory = "$share/data" } } }
LUA
    # What the jobs around the others run, on two nodes and with a mount.
    job_file 2 "if [ \$RANK = 0 ]; then $share/submit_all rank; fi" \
        '{"mountVolumes": {"unmanagedFileSystems": [{"mountCommand": "data", "relativeMountPath": "vol"}]}}' |
        as_user bash -c "cat > $share/outer.json"
    job_file 1 "until [ -e $share/end ]; do sleep 0.2; done" '{}' | as_user bash -c "cat > $share/waits.json"
    # And what those in them run.
    job_file 1 "$share/look" '{}' | as_user bash -c "cat > $share/inner.json"
    # Commands of Slurm that know nothing of batchai, such as those of an image or another login host.
    as_user bash -c "sed '/^PlugStackConfig\|^CliFilterPlugins/d' /etc/slurm/slurm.conf > $share/slurm.conf
        echo PlugStackConfig=$share/none.conf >> $share/slurm.conf"
    executable look << 'SH'
#!/bin/sh
{ env; cat /proc/self/mountinfo; } > "$ROW.new" && mv "$ROW.new" "$ROW"
SH
    executable submit_one << 'SH'
#!/bin/bash
# submit_one OUTER INNER
cd "${0%/*}" || exit
export ROW=$PWD/$1.$2
case $2 in
    batch) sbatch --quiet --wait -N1 -n1 -o "$ROW.out" --wrap "srun $PWD/look" ;;
    job) sbatch --quiet --wait -o "$ROW.out" --job-json=inner.json --wrap 'batchai run' ;;
    array) sbatch --quiet --wait --array=7 -o "$ROW.out" --job-json=inner.json --wrap 'batchai run' ;;
    create) batchai job create --name "$1" --config-file inner.json --output none && batchai job wait --name "$1" ;;
    salloc) salloc --quiet -N1 -n1 srun "$PWD/look" ;;
    # It makes an allocation of its own.
    srun) env -u SLURM_JOB_ID -u SLURM_JOBID srun --quiet -N1 -n1 "$PWD/look" ;;
    bare) SLURM_CONF=$PWD/slurm.conf sbatch --quiet --wait -N1 -n1 -o "$ROW.out" --wrap "srun $PWD/look" ;;
esac
SH
    executable submit_all << SH
#!/bin/bash
# submit_all OUTER: a job of each kind at once.
cd $share || exit
env > \$1.env
for inner in ${inners[*]}; do
    { ./submit_one "\$1" "\$inner" < /dev/null > "\$1.\$inner.said" 2>&1; echo \$? > "\$1.\$inner.rc"; } &
done
wait
touch "\$1.done"
until [ -e end ]; do sleep 0.2; done
SH
}

# job_file NODES COMMAND PROPERTIES
job_file() {
    jq -n --argjson nodes "$1" --arg command "$2" --argjson more "$3" --arg logs "$share/logs" \
        '{properties: ({nodeCount: $nodes, stdOutErrPathPrefix: $logs,
            customMpiSettings: {commandLine: $command}} + $more)}'
}

executable() { as_user bash -c "cat > $share/$1 && chmod 755 $share/$1"; }

submit_outers() {
    local options=(--parsable -N1 -n1 --requeue -o "$share/outer.%j.out")
    note plain here sbatch "${options[@]}" --wrap "./submit_all plain"
    note array here sbatch "${options[@]}" --array=5 --wrap "./submit_all array"
    note requeued here sbatch "${options[@]}" \
        --wrap 'if [ ${SLURM_RESTART_COUNT:-0} = 0 ]; then scontrol requeue $SLURM_JOB_ID; sleep 600; fi; ./submit_all requeued'
    note ours here sbatch --parsable --requeue -o "$share/outer.%j.out" --job-json=outer.json --wrap "./submit_all ours"
    note rank here sbatch --parsable --requeue -o "$share/outer.%j.out" --job-json=outer.json --wrap "batchai run"
    here bash -c "setsid salloc --quiet --job-json=outer.json bash -c 'echo \$SLURM_JOB_ID > salloc.id
        exec ./submit_all salloc' < /dev/null > salloc.said 2>&1 &"
    here batchai job create --name around --config-file waits.json --output none
    here bash -c 'batchai job show --name around --query slurmJobId --output tsv > shell.id'
    wait_until 60 here bash -c '[[ $(batchai job show --name around --query executionState -o tsv) == running ]]'
    here bash -c "setsid batchai job shell around -- ./submit_all shell < /dev/null > shell.said 2>&1 &"
}

# note OUTER CMD…: CMD prints the id of a job.
note() {
    local id
    id=$("${@:2}") && as_user bash -c "echo ${id%%;*} > $share/$1.id"
}
id_of() { as_user cat "$share/$1.id"; }

show_outer() { as_user bash -c "tail -n 20 $share/outer.*.out $share/$1.*said $share/$1.*rc $share/$1.*.out" >&2; }

# each CHECK INNER…: for what each outer job, but the one named by $without, has submitted of these
# kinds. Names all that are wrong.
each() {
    local check=$1 outer inner row seen why wrong=0
    for outer in "${outers[@]}"; do
        [[ $outer != "${without:-}" ]] || continue
        for inner in "${@:2}"; do
            row=$outer.$inner
            seen=$(as_user cat "$share/$row") && why=$("$check" 2>&1) && continue
            wrong=1
            printf '%s: %s\n' "$row" "${why:-did not run}" >&2
            [[ -n $seen ]] || as_user bash -c "tail -n 5 $share/$row.said $share/$row.out" >&2 || true
        done
    done
    return "$wrong"
}

has() { grep -qxE -e "$1" <<< "$seen" || { echo "no $1"; return 1; }; }
lacks() { ! grep -xE -m 3 -e "$1" <<< "$seen"; }

of_ours='(AZ_BATCH|BATCHAI_(PLAN|SLURM_JOB|SANDBOX|RANK_VARIABLES|JOB_JSON|CLEAN_UP|REFUSALS|USAGE)|MPI_BRIDGE_|HOROVOD_'
of_ours+='|RANK=|LOCAL_RANK=|WORLD_SIZE=|MASTER_|GROUP_|TORCHELASTIC_|JAX_|_?SLURM_SPANK_(_SLURM_SPANK_)?(OPTION_batchai|BATCHAI)).*'

is_plain() { lacks "$of_ours" && lacks '.*/batchai-20001/.*' && has SLURM_JOB_NUM_NODES=1; }

is_of_this_job() {
    has RANK=0 && has WORLD_SIZE=1 && has SLURM_JOB_NUM_NODES=1 && has TORCHELASTIC_RESTART_COUNT=0 &&
        lacks 'SLURM_RESTART_COUNT=.*' && lacks '.*/vol .*'
}
is_single() { is_of_this_job && lacks 'SLURM_ARRAY_.*' && lacks '.*/task-.*'; }
is_task_7() { is_of_this_job && has SLURM_ARRAY_TASK_ID=7 && has SLURM_ARRAY_TASK_COUNT=1 && has '.*=.*/task-7.*'; }

# Breaks when a plain job gets the size, the mounts or the variables of the job that it is submitted from.
@test "a plain job is a plain job, wherever it is submitted" {
    each is_plain batch salloc
}

# Breaks when srun, which makes a step inside a job, is not told from one that makes a job.
@test "srun outside of the allocation runs a plain job" {
    each is_plain srun
}

# Breaks when only the submitting command keeps the jobs apart: the nodes must, too.
@test "steps of a job that knew nothing of batchai run in no other job's mounts" {
    # No node has seen the shell of salloc, which is on the login host and has the plugin there.
    without=salloc each is_plain bare
}

# Breaks when the array, the restarts or the ranks of the job around are taken for the job's own.
@test "a job with a job file is that of its file, and not of the job around" {
    each is_single job create
}

@test "a task of an array that is submitted in a job has its own number" {
    each is_task_7 array
}

# Breaks when an inner job queues the outer one again, ends it, or removes its files.
@test "the jobs around are unharmed" {
    local outer restarts
    for outer in "${outers[@]}"; do
        restarts=$(as_user scontrol show job -o "$(id_of "$outer")") || return
        echo "$outer $restarts"
        [[ $restarts == *" JobState=RUNNING "* ]]
        if [[ $outer == requeued ]]; then
            [[ $restarts == *" Restarts=1 "* ]]
        else
            [[ $restarts == *" Restarts=0 "* ]]
        fi
    done
}

# Breaks when the job around decides which job of Slurm is queued again, or where the record is.
@test "a job with retry in a task of an array is queued again itself" {
    local outer inner
    job_file 1 "$share/look; [ \${SLURM_RESTART_COUNT:-0} -gt 0 ] || exit 75" '{"retry": {"max": 1, "on": ["75"], "inAllocation": false}}' |
        as_user bash -c "cat > $share/retry.json"
    outer=$(here sbatch --parsable -N1 -n1 --requeue --array=3 -o "$share/retry.out" --wrap \
        "ROW=$share/retry.row sbatch --parsable --job-json=retry.json -o retry.inner.%N --open-mode=append --wrap 'batchai run' > retry.id
         until [ -e retry.end ]; do sleep 0.2; done")
    wait_until 60 as_user test -s "$share/retry.id"
    inner=$(id_of retry)
    start_again "$inner"
    wait_until 90 job_is "$inner" COMPLETED
    [[ $(as_user scontrol show job -o "${outer}_3") == *" JobState=RUNNING "*" Restarts=0 "* ]]
    as_user touch "$share/retry.end"
    # Two hosts that append to one file of a remote file system overwrite each other.
    run as_user bash -c "cat $share/retry.inner.*"
    echo "$output"
    [[ $output == *"retry 1 of 1"* && $output != *"cannot be written"* && $output != *task-3* ]]
    [[ $(as_user cat "$share/retry.row") == *$'\n'SLURM_RESTART_COUNT=1$'\n'* ]]
}

# Breaks when the record of a task of an array is written before its directory is made.
@test "tasks of an array that may be run again complain of nothing" {
    job_file 1 true '{"retry": {"max": 1, "on": ["75"], "inAllocation": false}}' | as_user bash -c "cat > $share/tasks.json"
    here sbatch --quiet --wait --array=1-2 -o "$share/tasks.out" --open-mode=append --job-json=tasks.json --wrap 'batchai run'
    run as_user cat "$share/tasks.out"
    echo "$output"
    [[ $output == *task-1* && $output == *task-2* && $output != *"cannot be"* ]]
}

# Breaks when srun takes an option of the job around beside one of the job.
@test "what the job around has asked for its own steps stops no step of a job" {
    local variable out=()
    for variable in SLURM_MEM_PER_CPU=300 SLURM_GPUS_PER_TASK=1 SLURM_GPUS=1 SLURM_GRES=widget:9 SLURM_RESV_PORTS=1 \
        SLURM_TASK_PROLOG=/nope SLURM_HET_SIZE=2 SLURM_HINT=nomultithread SLURM_RESTART_COUNT=4; do
        out+=("$share/${variable%%=*}.row")
        here env "$variable" "ROW=${out[-1]}" sbatch --quiet -o "${out[-1]}.out" --mem=600 \
            --job-json=inner.json --wrap 'batchai run'
    done
    for variable in "${out[@]}"; do
        wait_until 170 as_user test -e "$variable" || { as_user cat "$variable.out"; return 1; }
        # Neither do the restarts of another job count.
        seen=$(as_user cat "$variable")
        has TORCHELASTIC_RESTART_COUNT=0
        lacks 'SLURM_RESTART_COUNT=.*'
    done
}

# Breaks when a component without a job file gets that of another one, or the user hears of sizes only.
@test "--job-json is refused on each component of a heterogeneous job, with the reason" {
    local words before
    before=$(next_job)
    here bash -c "printf '%s\n' '#!/bin/bash' '#SBATCH --job-json=inner.json' '#SBATCH hetjob' '#SBATCH -n1' true > het.sh"
    while read -r words; do
        # shellcheck disable=SC2086 # words
        run here $words
        echo "$words: $output"
        [[ $status -ne 0 && $output == *"heterogeneous jobs cannot have --job-json"* && $output != *contradicts* ]]
    done << 'END'
sbatch --job-json=inner.json : -N1 -n1 het.sh
sbatch -N1 -n1 : --job-json=inner.json het.sh
sbatch --job-json=inner.json : --job-json=inner.json het.sh
sbatch het.sh
salloc --job-json=inner.json : -N1 -n1 true
salloc -N1 -n1 : --job-json=inner.json true
srun --job-json=inner.json true : -N1 -n1 true
END
    [[ $(next_job) -eq $before ]]
    if site_has lua; then
        # Their job_submit.lua loads ours, which lets no such job in.
        run here sbatch -N1 -n1 --wrap 'batchai run --job-json=inner.json' : -N1 -n1
        echo "$output"
        [[ $status -ne 0 && $output == *"heterogeneous jobs cannot have --job-json"* ]]
        return
    fi
    # And in such a job, batchai run says so.
    here sbatch --quiet -N1 -n1 -o "$share/het.out" : -N1 -n1 --wrap 'batchai run --job-json=inner.json; echo $? > het.rc' ||
        here sbatch --quiet -N1 -n1 -o "$share/het.out" --wrap 'batchai run --job-json=inner.json; echo $? > het.rc' : -N1 -n1
    wait_until 60 as_user test -e "$share/het.rc"
    run as_user cat "$share/het.out"
    echo "$output"
    [[ $output == *"is a component of a heterogeneous job"* ]]
}
