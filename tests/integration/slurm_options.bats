#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Slurm's own options: in the job file, as flags of `job create`, after "--", and in config.toml; and
# what Slurm says of a job that has them.

bats_require_minimum_version 1.5.0
load lib

setup_file() {
    as_root_on login scontrol update nodename=h[1-4] availablefeatures=fast activefeatures=fast
    # A second account of alice's, besides her default.
    as_root_on login sacctmgr -i -Q add account course
    as_root_on login sacctmgr -i -Q add user alice account=course
}

teardown_file() {
    as_root_on login sacctmgr -i -Q remove user alice account=course
    as_root_on login sacctmgr -i -Q remove account course
    as_root_on login scontrol update nodename=h[1-4] availablefeatures= activefeatures=
}

setup() {
    make_home "slurm-options-$BATS_TEST_NUMBER"
    job plain '{}'
}

teardown() {
    cancel_jobs
    wait_until 60 nothing_is_queued
    remove_home
}

# mine WORDS…: batchai with a config.toml below HOME_DIR.
mine() { batchai_with "XDG_CONFIG_HOME=$HOME_DIR/config" "$@"; }

# config TEXT: writes that file.
config() {
    as_user bash -c "mkdir -p $HOME_DIR/config/batchai && cat > $HOME_DIR/config/batchai/config.toml" <<< "$1"
}

# job NAME SLURM: NAME.json, whose "slurm" is the JSON object SLURM.
job() {
    jq -n --arg logs "$HOME_DIR/logs" --argjson slurm "$2" '{"$schema": "job.schema.json", properties: {
        nodeCount: 2, stdOutErrPathPrefix: $logs, slurm: $slurm,
        customMpiSettings: {commandLine: "echo $SLURM_ARRAY_TASK_ID"}}}' | write_home "$1.json"
}

# submit FILE WORDS…: sets `id`, Slurm's id of the new job, and `shown`, what Slurm says of it.
submit() {
    id=$(mine job create --config-file "$1.json" --query slurmJobId --output tsv "${@:2}")
    shown=$(as_user scontrol show job -o "$id")
}

# has FIELD=VALUE…: `shown` has each of these fields.
has() {
    local field
    for field in "$@"; do
        [[ " $shown " == *" $field "* ]] || {
            echo "not shown: $field"
            echo "$shown"
            return 1
        }
    done
}

# starts_later: `shown` is of a job that starts more than half an hour after its submission.
starts_later() {
    local start submitted
    start=$(grep -oP ' StartTime=\K\S+' <<< "$shown")
    submitted=$(grep -oP ' SubmitTime=\K\S+' <<< "$shown")
    [[ $(($(date -d "$start" +%s) - $(date -d "$submitted" +%s))) -gt 1800 ]]
}

# A job that other jobs can wait for: it is not started, and is cancelled in the end.
first_job() { as_user sbatch --parsable --hold --output=/dev/null --wrap=true; }

no_records() { prints_nothing as_user find "$HOME_DIR" -path '*/jobs/*'; }

# origin OPTION: for the output of a dry run in `output`; where it says that the option comes from.
origin() { sed -n "s/^#   --$1=[^ ]* *//p" <<< "$output"; }

# Breaks when an option is lost on its way from one of the four places to Slurm.
@test "Slurm's options reach the job from the file, from flags, from config.toml and after --" {
    local first shared=OverSubscribe=OK
    if slurm_is_from 26.05; then shared=Exclusive=NO; fi
    first=$(first_job)
    job full "{\"partition\": \"debug\", \"comment\": \"third try\", \"constraint\": \"fast\",
        \"exclude\": \"h[3-4]\", \"nodelist\": \"h1\", \"dependency\": \"afterany:$first\",
        \"begin\": \"now+1hour\", \"mem\": \"100M\", \"exclusive\": false, \"account\": \"course\",
        \"mail-type\": \"FAIL\", \"array\": \"3-4%1\"}"
    submit full
    has Partition=debug "Comment=third try" Features=fast 'ExcNodeList=h[3-4]' ReqNodeList=h1 \
        "Dependency=afterany:$first(unfulfilled)" MinMemoryNode=100M "$shared" \
        Account=course ArrayTaskId=3-4%1
    starts_later

    submit plain --partition debug --comment 'third try' --constraint fast --exclude 'h[3-4]' \
        --nodelist h1 --dependency "afterany:$first" --begin now+1hour --mem 100M --no-exclusive \
        --account course --array 3-4%1
    has Partition=debug "Comment=third try" Features=fast 'ExcNodeList=h[3-4]' ReqNodeList=h1 \
        "Dependency=afterany:$first(unfulfilled)" MinMemoryNode=100M "$shared" \
        Account=course ArrayTaskId=3-4%1
    starts_later

    submit plain -- -p debug --comm 'third try' -Cfast --exclude='h[3-4]' -w h1 \
        -d "afterany:$first" --begin=now+1hour --mem=100M --oversub --account=course -a 3-4%1 \
        --switches=1
    has Partition=debug "Comment=third try" Features=fast 'ExcNodeList=h[3-4]' ReqNodeList=h1 \
        "Dependency=afterany:$first(unfulfilled)" MinMemoryNode=100M OverSubscribe=YES \
        Account=course ArrayTaskId=3-4%1 'Switches=1@00:05:00'
    starts_later

    config '[slurm]
partition = "debug"
comment = "third try"
constraint = "fast"
exclude = "h[3-4]"
begin = "now+1hour"
mem = "100M"
exclusive = false
account = "course"'
    submit plain
    has Partition=debug "Comment=third try" Features=fast 'ExcNodeList=h[3-4]' MinMemoryNode=100M \
        "$shared" Account=course
    starts_later
    as_user scancel "$first"
}

# Breaks when a farther place wins over a nearer one, or the dry run names the wrong place.
@test "the nearest choice counts, and a dry run says where each comes from" {
    job filed '{"partition": "requeued", "qos": "normal"}'
    run -0 mine job create --dry-run -f plain.json
    [[ $(origin nodes) == "the job file: nodeCount" ]]
    [[ -z $(origin partition) ]]
    config $'[slurm]\npartition = "cancelled"\naccount = "research"'
    run -0 mine job create --dry-run -f plain.json
    [[ $output == *--partition=cancelled* && $(origin partition) == config.toml ]]
    run -0 mine job create --dry-run -f filed.json
    [[ $output == *--partition=requeued* && $(origin partition) == "the job file: slurm.partition" ]]
    [[ $(origin account) == config.toml && $(origin qos) == "the job file: slurm.qos" ]]
    run -0 mine job create --dry-run -f filed.json --partition debug
    [[ $output == *--partition=debug* && $(origin partition) == "the command line" ]]
    run -0 mine job create --dry-run -f filed.json --partition debug -- -purgent
    [[ $output == *--partition=urgent* && $(origin partition) == "the command line, after --" ]]
    no_records
}

# Breaks when an option of the plan gets to sbatch in a form that is not recognized, or a refusal
# leaves a record or a job.
@test "options that belong to the plan are refused" {
    local words
    for words in --nodes=3 --nod=3 -N3 '-N 3' -HN3 --ta=1 -o/tmp/x --wrap=true --export=NONE \
        script.sh; do
        # shellcheck disable=SC2086 # one word or two
        run -2 mine job create -f plain.json -- $words
        [[ $output == *"options after --"* ]]
    done
    run -2 mine job create -f plain.json -- -N3
    [[ $output == *'"-N3" (--nodes) cannot be given'*'"nodeCount" sets it'* ]]
    run -2 mine job create -f plain.json --mem lots
    [[ $output == *"--mem"*"is not a memory size"* ]]
    run -2 mine job create -f plain.json --partition=-x
    [[ $output == *'must not start with "-"'* ]]
    job bad '{"nodes": "3", "partition": "--uid=0", "comment": "a\nb"}'
    run -3 mine job create -f bad.json
    [[ $output == *'"nodes" cannot be set here; "nodeCount" sets it'* ]]
    [[ $output == *'"partition" must not start with "-"'* && $output == *'"comment" must not contain'* ]]
    [[ $output == *^* ]]
    no_records
    prints_nothing as_user squeue -h
}

# Breaks when the check submits something, leaves something, or asks with other options than a
# submission has.
@test "a check asks Slurm and leaves nothing" {
    run -0 mine job create -f plain.json --dry-run --check --partition debug --nodelist 'h[2-3]'
    [[ $output == *"# Slurm would take it: Job "*" to start at "*"h[2-3]"*debug* ]]
    run -1 mine job create -f plain.json --dry-run --check --partition nosuch
    [[ $output == *"sbatch --test-only: "*[Ii]nvalid\ partition* ]]
    run -1 mine job create -f plain.json --dry-run --check --constraint slow
    [[ $output == *"sbatch --test-only: "* && $output != *"would take it"* ]]
    run -2 mine job create -f plain.json --check
    [[ $output == *--dry-run* ]]
    no_records
    prints_nothing as_user squeue -h
}

# at_door COMMAND…: what Slurm says of the job that the command starts or submits.
at_door() {
    as_user bash -c 'cd "$1" && exec env PATH="$2/bin:$PATH" "BATCHAI_HOME=$1/records" \
        "XDG_CONFIG_HOME=$1/config" "${@:3}"' at_door "$HOME_DIR" "$PREFIX" "$@"
}

# Breaks when the file's options or the user's defaults are not set at a door, or win over the user's
# own.
@test "sbatch, srun and salloc take the file's options, and the user's own win" {
    job doors '{"partition": "debug", "comment": "of the file", "exclude": "h4", "array": "5"}'
    config $'[slurm]\nconstraint = "fast"\npartition = "urgent"'
    local submitted
    submitted=$(at_door sbatch --parsable --hold --output=/dev/null --job-json=doors.json --wrap=true)
    shown=$(as_user scontrol show job -o "$submitted")
    has Partition=debug "Comment=of the file" ExcNodeList=h4 Features=fast ArrayTaskId=5
    submitted=$(at_door sbatch --parsable --hold --output=/dev/null --partition=main --comment=mine \
        --job-json=doors.json --wrap=true)
    shown=$(as_user scontrol show job -o "$submitted")
    has Partition=main Comment=mine ExcNodeList=h4 Features=fast
    cancel_jobs
    shown=$(at_door srun --quiet --ntasks=2 --job-json=doors.json bash -c \
        '[[ $SLURM_PROCID == 1 ]] || scontrol show job -o $SLURM_JOB_ID')
    has Partition=debug "Comment=of the file" ExcNodeList=h4 Features=fast
    shown=$(at_door salloc --quiet --partition=main --job-json=doors.json \
        bash -c 'scontrol show job -o $SLURM_JOB_ID')
    has Partition=main "Comment=of the file" ExcNodeList=h4 Features=fast
}

# Breaks when a task of an array job has no output of its own.
@test "each task of an array job of job create runs the whole job" {
    local task
    submit plain --array 1-2
    wait_until 60 has_ended_array "$id"
    for task in 1 2; do
        # The accounts may learn of the end a little later than the queue.
        wait_until 60 task_is "${id}_$task" COMPLETED
        run -0 as_user find "$HOME_DIR/logs" -path "*/task-$task/*" -name stdout.txt -exec cat {} +
        [[ $output == "$task"$'\n'"$task" ]]
    done
}

# Breaks when the end of the last task, whose id is that of the array, is taken for that of all.
@test "an array job whose last task has ended is terminated with its other tasks" {
    write_home array.json <<< "{\"properties\": {\"nodeCount\": 1,
        \"stdOutErrPathPrefix\": \"$HOME_DIR/logs\", \"slurm\": {\"array\": \"1-2\"},
        \"customMpiSettings\": {\"commandLine\": \"[ \$SLURM_ARRAY_TASK_ID = 2 ] || sleep 300\"}}}"
    submit array --name array
    wait_until 60 task_is "${id}_2" COMPLETED
    wait_until 60 task_is "${id}_1" RUNNING
    mine job terminate --name array --yes
    wait_until 60 has_ended_array "$id"
    wait_until 60 task_is "${id}_1" "CANCELLED*"
}

# task_is ID STATE: for wait_until; STATE may be a pattern.
# shellcheck disable=SC2053 # STATE is a pattern
task_is() { [[ $(as_user sacct -n -P -X -j "$1" -o State) == $2 ]]; }

# has_ended_array ID: for wait_until.
has_ended_array() { prints_nothing lines_like "^$1\$" as_user squeue -h -o %F; }

# Breaks when a value is shown with the wrong place, or a change spoils the rest of the file.
@test "config shows, finds and changes the user's defaults" {
    run -0 mine config path
    [[ $output == "$HOME_DIR/config/batchai/config.toml" ]]
    run -5 mine config get slurm.partition
    mine config set slurm.partition=debug defaults.workspace=dev slurm.exclusive=false
    run -0 mine config get slurm.partition -o tsv
    [[ $output == debug ]]
    config $'# mine\n[slurm]\npartition = "debug" # fast\n\n[defaults]\nworkspace = "dev"\nexperiment = "e"'
    mine config set slurm.partition=main
    run -0 as_user cat "$HOME_DIR/config/batchai/config.toml"
    [[ $output == $'# mine\n[slurm]\npartition = "main" # fast\n\n[defaults]\nworkspace = "dev"\nexperiment = "e"' ]]
    run -0 batchai_with "XDG_CONFIG_HOME=$HOME_DIR/config BATCHAI_DEFAULTS_EXPERIMENT=other" \
        config list --origin
    jq -e --arg file "$HOME_DIR/config/batchai/config.toml" '
        map({(.key): [.value, .origin]}) | add
        | .["slurm.partition"] == ["main", "\($file):3"]
          and .["defaults.workspace"] == ["dev", "\($file):6"]
          and .["defaults.experiment"] == ["other", "$BATCHAI_DEFAULTS_EXPERIMENT"]
          and .["defaults.group"] == ["default", "batchai"]
          and .["slurm.exclusive"] == [true, "batchai"]' <<< "$output"
    run -0 mine config list -o table
    [[ ${lines[0]} =~ ^Key\ +Value$ ]]
    run -2 mine config set slurm.partiton=x
    [[ $output == *"did you mean slurm.partition?"* ]]
    run -2 mine config set slurm.mem=lots
    # The defaults name the parents of a job, too.
    run -0 mine job create --dry-run -f plain.json
    [[ $output == *'"workspace": "dev"'* && $output == *'"experiment": "e"'* ]]
}

# Breaks when a faulty or foreign file is used, or its fault is told without its place.
@test "a config.toml that is faulty, foreign or open to others is refused" {
    config $'[slurm]\npartition = "debug"\nnodes = 3\n  memm = "1"'
    run -3 mine job create --dry-run -f plain.json
    [[ $output == *'config.toml:3:1: error: "nodes" cannot be set here'*'nodes = 3'*'^'* ]]
    [[ $output == *'config.toml:4:3: error: unknown key "memm"; did you mean "mem"?'* ]]
    config $'[slurm]\npartition = debug'
    run -3 mine job list
    [[ $output == *config.toml:2:* ]]
    # A faulty file does not hinder its correction.
    run -0 mine config path
    config '[slurm]'
    as_user chmod 664 "$HOME_DIR/config/batchai/config.toml"
    run -1 mine job create --dry-run -f plain.json
    [[ $output == *"can be written to by other users"*"chmod go-w"* ]]
    as_user chmod 644 "$HOME_DIR/config/batchai/config.toml"
    as_root_on login chown bob "$HOME_DIR/config/batchai/config.toml"
    run -1 mine job create --dry-run -f plain.json
    [[ $output == *"belongs to user"* ]]
}
