#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The four doors to Slurm: `batchai job create`, and sbatch, srun and salloc with --job-json. For the
# same file, site and cluster each gets the same allocation from Slurm.

bats_require_minimum_version 1.5.0
load lib

share=/shared/doors

setup_file() {
    as_root_on login install -d -m 1777 "$share"
    as_root_on login scontrol update nodename=h[1-4] availablefeatures=fast activefeatures=fast
    # Job create's own sbatch is asked to say its options, as the others are with -v.
    as_user bash -c "mkdir -p $share/bin && cat > $share/bin/sbatch && chmod 755 $share/bin/sbatch" << SH
#!/bin/sh
exec /usr/bin/sbatch -v "\$@" 2> $share/create.said
SH
    write_sites
    write_jobs
    for site in plain sized; do
        with_site "$site" "$PREFIX/bin/batchai" cluster create --name "big-$site" --vm-size big \
            --target 4 --output none
        with_site "$site" "$PREFIX/bin/batchai" cluster create --name "odd-$site" --vm-size odd \
            --target 4 --output none
    done
}

teardown_file() {
    end_jobs || return
    as_root_on login scontrol update nodename=h[1-4] availablefeatures= activefeatures=
    as_root_on login rm -rf "$share"
}

# with_site SITE CMD…: as a user of that site, with records of the suite's own.
with_site() {
    as_user env "BATCHAI_SITE=$share/site-$1.lua" "BATCHAI_HOME=$share/records" \
        "PATH=$PREFIX/bin:/usr/bin:/bin" "${@:2}"
}

write_sites() {
    site_lua << 'LUA' | as_user bash -c "cat > $share/site-plain.lua"
return { exclusive = false, default_partition = "debug", account = "research", qos = "normal" }
LUA
    site_lua << 'LUA' | as_user bash -c "cat > $share/site-sized.lua"
return {
  default_partition = "debug",
  vm_sizes = {
    BIG = { partition = "main", constraint = "fast", gres = "widget:1", cpus = 4, gpus = 1,
            extra_options = { "--mem=100M", "--contiguous" } },
    ODD = { partition = "main", extra_options = { "--nice=7", "--time=9" } },
  },
}
LUA
}

# job NAME PROPERTIES: a job file of two nodes and four processes, with more properties.
job() {
    jq -n --argjson more "$2" '{properties: ({nodeCount: 2, stdOutErrPathPrefix: "/shared/doors/logs",
        customMpiSettings: {processCount: 4, commandLine: "true"}} + $more)}' |
        as_user bash -c "cat > $share/$1.json"
}

write_jobs() {
    job small '{}'
    job low '{"schedulingPriority": "low", "constraints": {"maxWallClockTime": "PT5M"}}'
    job elastic '{"environmentVariables": [{"name": "BATCHAI_ELASTIC_MIN_NODES", "value": "1"}]}'
    for site in plain sized; do
        job "big-$site" "{\"cluster\": {\"id\": \"big-$site\"}}"
        job "odd-$site" "{\"cluster\": {\"id\": \"/subscriptions/0/resourceGroups/default/providers/Microsoft.BatchAI/workspaces/default/clusters/odd-$site\"}, \"schedulingPriority\": \"high\"}"
    done
}

# id_through DOOR SITE FILE: Slurm's id of the job; what the command said goes to $share/said.
id_through() {
    local file=$share/$3.json
    case $1 in
        create)
            with_site "$2" env "PATH=$share/bin:/usr/bin:/bin" "$PREFIX/bin/batchai" job create \
                --config-file "$file" --query slurmJobId -o tsv
            as_user cp "$share/create.said" "$share/said"
            ;;
        sbatch) with_site "$2" sh -c "sbatch -v --parsable -o /dev/null --job-json='$file' --wrap=true 2> $share/said" ;;
        srun) with_site "$2" sh -c "srun -v --job-json='$file' printenv SLURM_JOB_ID 2> $share/said" | sort -u ;;
        salloc) with_site "$2" sh -c "salloc -v --job-json='$file' printenv SLURM_JOB_ID 2> $share/said" ;;
    esac
}

fields='NumNodes NumTasks CPUs/Task NtasksPerN:B:S:C Partition Features TresPerNode Nice TimeLimit Account QOS OverSubscribe MinMemoryNode MinMemoryCPU Contiguous'

# is_settled ID: for wait_until; sets `settled` to what Slurm says of the job. While a job is
# completing, its number of nodes falls.
is_settled() {
    settled=$(as_user scontrol show job -o "$1") && [[ $settled != *JobState=COMPLETING* ]]
}

# allocation ID: one "field=value" a line, of those that say what was asked for.
allocation() {
    local settled
    wait_until 60 is_settled "$1" || return 1
    for field in $fields; do
        # While a job waits, its number of nodes is a range.
        grep -oE "(^| )$field=[^ ]*" <<< "$settled" | tr -d ' ' | sed 's/^\(NumNodes=[0-9]*\)-.*/\1/'
    done
    # scontrol does not show it, but the command does, once the filter has been at it.
    printf 'no-kill=%s\n' "$(as_user grep -ciE '(no-kill +: set)' "$share/said")"
}

# Breaks when an option is missing at a door, differs there, or is in another list than sbatch's.
@test "a file gets the same allocation through all four doors" {
    local failed=0 row id want got
    printf '# %-12s %-6s %-7s %s\n' file site door allocation >&3
    for row in 'small plain' 'small sized' 'low plain' 'low sized' 'elastic plain' 'elastic sized' \
        'big-plain plain' 'big-sized sized' 'odd-plain plain' 'odd-sized sized'; do
        # shellcheck disable=SC2086
        set -- $row
        for door in create sbatch srun salloc; do
            id=$(id_through "$door" "$2" "$1") || { echo "$row: $door failed"; as_user cat "$share/said"; failed=1; continue; }
            got=$(allocation "$id")
            [[ -n $got ]]
            [[ $door == create ]] && want=$got
            if [[ $got != "$want" ]]; then
                failed=1
                echo "$row: $door differs from job create:"
                diff <(echo "$want") <(echo "$got") || true
            fi
            printf '# %-12s %-6s %-7s %s\n' "$1" "$2" "$door" "$(tr '\n' ' ' <<< "$got")" >&3
        done
        # What the table is of is really there.
        case $row in
            'small plain') [[ $want == *Partition=debug* && $want == *Account=research* ]] ;;
            'low '*) [[ $want == *Nice=1000* && $want == *TimeLimit=00:05:00* ]] ;;
            elastic*) [[ $want == *no-kill=1* ]] ;;
            'big-sized '*)
                [[ $want == *Features=fast* && $want == *gres[:/]widget:1* && $want == *CPUs/Task=2* ]]
                [[ $want == *MinMemoryNode=100M* && $want == *Contiguous=1* ]]
                ;;
            'odd-sized '*) [[ $want == *Nice=7* && $want == *TimeLimit=00:09:00* ]] ;;
        esac
        wait_until 60 no_job_of_alice
    done
    [[ $failed -eq 0 ]]
}

# For wait_until: fails when squeue does.
no_job_of_alice() {
    local jobs
    jobs=$(as_user squeue -h -u alice -o %i) && [[ -z $jobs ]]
}

# Breaks when the site's default wins over the user, from whichever place the user's word comes.
@test "the user's options win over the site's, from the command line, the script and the environment" {
    local id
    as_user bash -c "cat > $share/script.sh" << 'SH'
#!/bin/bash
#SBATCH --partition=debug --nice=3
true
SH
    id=$(with_site sized sbatch --parsable -o /dev/null --job-json="$share/big-sized.json" "$share/script.sh")
    run allocation "$id"
    [[ $output == *Partition=debug* && $output == *Nice=3* && $output == *Features=fast* ]]
    id=$(with_site sized env SBATCH_PARTITION=debug sbatch --parsable -o /dev/null \
        --mem-per-cpu=50M --oversubscribe --job-json="$share/big-sized.json" --wrap=true)
    run allocation "$id"
    echo "$output"
    [[ $output == *Partition=debug* && $output == *OverSubscribe=YES* && $output == *MinMemoryCPU=50M* ]]
    id=$(with_site sized salloc --time=3 --job-json="$share/big-sized.json" printenv SLURM_JOB_ID)
    run allocation "$id"
    [[ $output == *TimeLimit=00:03:00* && $output == *gres[:/]widget:1* ]]
}

# Breaks when the file's word is silently overruled, one task is taken for no wish, or the same time
# in other words is taken for another.
@test "an option that contradicts the file is refused with both values, at each door" {
    local before
    before=$(next_job)
    for words in "sbatch --wrap=true" "srun true" "salloc true"; do
        # shellcheck disable=SC2086
        run with_site plain ${words%% *} -N3 --job-json="$share/small.json" ${words#* }
        echo "$output"
        [[ $status -ne 0 && $output == *"--nodes=3 contradicts $share/small.json, which asks for 2 (nodeCount)"* ]]
        # shellcheck disable=SC2086
        run with_site plain ${words%% *} -n1 --job-json="$share/small.json" ${words#* }
        echo "$output"
        [[ $status -ne 0 && $output == *"--ntasks=1 contradicts $share/small.json, which asks for 4 (processCount)"* ]]
        # shellcheck disable=SC2086
        run with_site plain ${words%% *} --time=3 --job-json="$share/low.json" ${words#* }
        echo "$output"
        [[ $status -ne 0 && $output == *"--time=00:03:00 contradicts $share/low.json, which asks for 00:05:00 (constraints.maxWallClockTime)"* ]]
        # shellcheck disable=SC2086
        run with_site plain ${words%% *} --nice=7 --job-json="$share/low.json" ${words#* }
        echo "$output"
        [[ $status -ne 0 && $output == *"--nice=7 contradicts $share/low.json, which asks for 1000 (schedulingPriority)"* ]]
    done
    as_user bash -c "printf '#!/bin/bash\n#SBATCH --nodes=1\ntrue\n' > $share/one.sh"
    run with_site plain sbatch --job-json="$share/small.json" "$share/one.sh"
    [[ $status -ne 0 && $output == *"--nodes=1 contradicts"* ]]
    run with_site plain salloc --nice=7 --job-json="$share/odd-plain.json" true
    [[ $status -ne 0 && $output == *"--nice=7 contradicts"*"asks for 0 (schedulingPriority)"* ]]
    [[ $(next_job) -eq $before ]]
    with_site plain salloc --time=5:00 --nice=1000 --job-json="$share/low.json" true
}

# Breaks when an option of the site is dropped where the command has no such option.
@test "an option that a command does not have is refused there, not dropped" {
    site_lua << 'LUA' | as_user bash -c "cat > $share/site-strange.lua"
return { vm_sizes = { BIG = { extra_options = { "--begin=now", "--get-user-env=L" } } } }
LUA
    run with_site strange srun --job-json="$share/big-plain.json" true
    echo "$output"
    [[ $status -ne 0 && $output == *"srun does not take --get-user-env=L"*extra_options* ]]
}

# What a site's own filter does; each of its functions is seen in the job.
filter_of_site() {
    cat << LUA
function slurm_cli_setup_defaults(options, early_pass)
    options.account = "research"
    options.partition = "main"
    options.time = "4"
    return slurm.SUCCESS
end
function slurm_cli_pre_submit(options, offset)
    if options["job-name"] == "forbidden" then
        slurm.log_error("the site forbids this name")
        return slurm.ERROR
    end
    options.comment = "nodes " .. tostring(options.nodes)
end
function slurm_cli_post_submit(offset, job_id, step_id)
    io.open(string.format("$share/submitted-%d", job_id), "w"):close()
    return slurm.SUCCESS
end
LUA
}

# put_filter: standard input becomes the cluster's filter.
put_filter() { as_root_on login sh -c 'cat > /etc/slurm/cli_filter.lua'; }

# Breaks when our line takes away what a site's own filter does, when its defaults count as the user's
# words, or when it does not see what the file asks for.
@test "a cli_filter.lua of the site's own keeps working, with one line more" {
    local door id
    as_root_on login cp /etc/slurm/cli_filter.lua /tmp/cli_filter.lua
    {
        filter_of_site
        block_of plugin.md lua | sed "s|/opt/batchai|$PREFIX|"
        echo 'return slurm.SUCCESS'
    } | put_filter
    # The file's limit, the site's partition and the number of nodes that the function has seen.
    for door in create sbatch srun salloc; do
        id=$(id_through "$door" plain low) || { as_user cat "$share/said"; return 1; }
        run as_user scontrol show job -o "$id"
        echo "$door: $output"
        [[ $output == *TimeLimit=00:05:00* && $output == *Partition=debug* && $output == *'Comment=nodes 2'* ]]
        as_user test -e "$share/submitted-$id"
    done
    # Without a file, the defaults apply; the user's words do in both cases.
    id=$(as_user sbatch --parsable --hold -o /dev/null --wrap=true)
    run as_user scontrol show job -o "$id"
    [[ $output == *TimeLimit=00:04:00* && $output == *Partition=main* && $output == *Account=research* ]]
    id=$(with_site plain sbatch --parsable --hold -o /dev/null -p urgent --job-json="$share/small.json" --wrap=true)
    run as_user scontrol show job -o "$id"
    echo "$output"
    [[ $output == *TimeLimit=00:04:00* && $output == *Partition=urgent* ]]
    for door in 'sbatch --wrap=true' 'srun true'; do
        # shellcheck disable=SC2086
        run with_site plain ${door%% *} -J forbidden --job-json="$share/small.json" ${door#* }
        echo "$output"
        [[ $status -ne 0 && $output == *'the site forbids this name'* ]]
    done
    run -0 batchai_admin_check
    [[ $output == *"the site's cli_filter.lua loads ours"* ]]
}
batchai_admin_check() { as_user "$PREFIX/bin/batchai" admin check --only filter; }

teardown() {
    cancel_jobs
    as_root_on login sh -c '[ ! -e /tmp/cli_filter.lua ] || mv /tmp/cli_filter.lua /etc/slurm/cli_filter.lua'
}

# Breaks when the door has its own idea of which cluster a file means.
@test "a file that names a cluster which is not there is refused at each door" {
    job lost '{"cluster": {"id": "nowhere"}}'
    for words in "sbatch --wrap=true" "srun true" "salloc true" "batchai job create -f"; do
        # shellcheck disable=SC2086
        case $words in
            batchai*) run with_site plain $words "$share/lost.json" ;;
            *) run with_site plain ${words%% *} --job-json="$share/lost.json" ${words#* } ;;
        esac
        echo "$output"
        [[ $status -ne 0 && $output == *"The specified cluster nowhere is not found"* ]]
    done
}

# Breaks when a door throws away the group and the workspace of a cluster's id, and takes another cluster
# of that name.
@test "each form of cluster.id means the same cluster at each door" {
    local failed=0 row name id partition got
    local sub=/subscriptions/0 arm=providers/Microsoft.BatchAI
    with_site sized "$PREFIX/bin/batchai" group create --name rg2 --location here -o none
    with_site sized "$PREFIX/bin/batchai" workspace create -n w2 -g rg2 -o none
    with_site sized "$PREFIX/bin/batchai" workspace create -n default -g rg2 -o none
    # In rg2/w2 it is of the size big, in partition main with a feature; in default/default there is
    # another one of that name, and so there is in rg2/default.
    with_site sized "$PREFIX/bin/batchai" cluster create -n two -g rg2 -w w2 --vm-size big --target 4 -o none
    with_site sized "$PREFIX/bin/batchai" cluster create -n two --vm-size odd --target 4 -o none
    with_site sized "$PREFIX/bin/batchai" cluster create -n two -g rg2 -w default --vm-size odd --target 4 -o none
    while read -r name id partition; do
        job "id-$name" "{\"cluster\": {\"id\": \"$id\"}}"
        for door in create sbatch srun salloc; do
            got=$(id_through "$door" sized "id-$name") || { echo "$name: $door failed"; as_user cat "$share/said"; failed=1; continue; }
            got=$(allocation "$got")
            if [[ $got != *"Features=$partition"* ]]; then
                echo "$name: $door: $got"
                failed=1
            fi
        done
    done << IDS
name two (null)
full $sub/resourceGroups/rg2/$arm/workspaces/w2/clusters/two fast
own $sub/resourceGroups/default/$arm/workspaces/default/clusters/two (null)
case $sub/resourcegroups/rg2/$arm/Workspaces/w2/Clusters/two fast
old $sub/resourceGroups/rg2/$arm/clusters/two (null)
IDS
    wait_until 60 no_job_of_alice
    [[ $failed -eq 0 ]]
    # The job says where its cluster is, and the cluster counts its job.
    id=$sub/resourceGroups/rg2/$arm/workspaces/w2/clusters/two
    run with_site sized "$PREFIX/bin/batchai" job create -n foreign -c "$id" -f "$share/small.json" -- --hold
    [[ $output == *"the cluster two is that of the workspace w2 in the group rg2, as its id says"* ]]
    run with_site sized "$PREFIX/bin/batchai" job list -o tsv --query "[?name=='foreign'].cluster.id"
    [[ $output == */resourceGroups/rg2/*/workspaces/w2/clusters/two ]]
    with_site sized "$PREFIX/bin/batchai" cluster delete -n two -g rg2 -w w2 --yes
    wait_until 60 no_job_of_alice
    # One that is not there, although others of its name are; and what is not a cluster.
    job id-lost "{\"cluster\": {\"id\": \"$id\"}}"
    job id-bad "{\"cluster\": {\"id\": \"$sub/resourceGroups/rg2/$arm/workspaces/w2\"}}"
    for row in "sbatch --wrap=true" "srun true" "salloc true" "batchai job create -f"; do
        for name in lost bad; do
            # shellcheck disable=SC2086
            case $row in
                batchai*) run with_site sized $row "$share/id-$name.json" ;;
                *) run with_site sized ${row%% *} --job-json="$share/id-$name.json" ${row#* } ;;
            esac
            echo "$output"
            [[ $status -ne 0 ]]
            if [[ $name == lost ]]; then
                [[ $output == *"The specified cluster two is not found in the workspace w2 of the group rg2"* ]]
            else
                [[ $output == *"is neither the name nor the id of a cluster"* ]]
            fi
        done
    done
    run with_site sized "$PREFIX/bin/batchai" validate "$share/id-lost.json"
    [[ $status -eq 0 && $output == *"is not found in the workspace w2 of the group rg2, so nothing of it is checked"* ]]
    run with_site sized "$PREFIX/bin/batchai" job create --dry-run -f "$share/id-lost.json"
    [[ $status -eq 0 && $output == *"so nothing of it is checked"* ]]
}

# Breaks when the filter and the plugin each plan the file.
@test "a file is planned once at a door, and not again in the steps of its job" {
    local before after
    before=$(as_user sh -c "ls $share/records/hand-over | wc -l")
    with_site plain salloc --job-json="$share/small.json" srun --job-json="$share/small.json" -n1 -N1 true
    after=$(as_user sh -c "ls $share/records/hand-over | wc -l")
    [[ $((after - before)) -eq 1 ]]
    with_site plain salloc --job-json="$share/small.json" sbatch --wait -o /dev/null \
        --job-json="$share/small.json" --wrap=true
    [[ $(as_user sh -c "ls $share/records/hand-over | wc -l") -eq $((after + 2)) ]]
}

# Breaks when tasks of an array share a record, a log, or a directory on a node.
@test "each task of an array job has a record, logs and directories of its own" {
    local id plan task
    # The first rank that fails ends the other, so each waits until both have printed.
    job task "$(jq -n '{stdOutErrPathPrefix: "/shared/doors/logs", customMpiSettings: {processCount: 2,
        commandLine: "echo task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_JOB_ID temp $AZ_BATCHAI_JOB_TEMP; touch /shared/doors/logs/said.$SLURM_ARRAY_TASK_ID.$SLURM_PROCID; until [ -e /shared/doors/logs/said.$SLURM_ARRAY_TASK_ID.0 ] && [ -e /shared/doors/logs/said.$SLURM_ARRAY_TASK_ID.1 ]; do sleep 0.1; done; [ $SLURM_ARRAY_TASK_ID != 2 ]"}}')"
    run with_site plain sbatch --parsable --array=0-3 -o "$share/array-%a.txt" \
        --job-json="$share/task.json" --wrap='batchai run'
    echo "$output"
    [[ $status -eq 0 ]]
    id=${output##*$'\n'}
    wait_until 90 no_job_of_alice
    as_user sh -c "cat $share/array-*.txt"
    plan=$(as_user sh -c "grep -l '\"job\": \"task\"' $share/records/hand-over/*/plan.json")
    [[ -n $plan ]]
    [[ $(as_user sh -c "ls -d ${plan%/*}/task-* | wc -l") -eq 4 ]]
    for task in 0 1 2 3; do
        run as_user jq -r '[.attempt, .exitCode, .slurmJobId] | @tsv' "${plan%/*}/task-$task/attempts/1.json"
        echo "$output"
        [[ $output == 1$'\t'$((task == 2))$'\t'* ]]
        run as_user sh -c "cat \$(find $share/logs -path '*/task-$task/stdouterr/stdout*')"
        echo "$output"
        [[ $(grep -c "^task $task of $id temp .*\.$task\$" <<< "$output") -eq 2 ]]
        lines_are 2 "$output"
    done
    run as_user ls "${plan%/*}/attempts"
    [[ $status -eq 0 && -z $output ]]
}
