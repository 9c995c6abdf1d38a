#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The policy of site.lua in slurmctld (job_submit.lua), for jobs of ordinary users that come past the
# planner's own check: with a site.lua of their own, without the command-line filter, with a script
# of their own, or by a change to a job that is queued.

bats_require_minimum_version 1.5.0
load lib

share=/shared/policy

setup_file() {
    as_root_on login install -d -m 1777 "$share"
    as_user bash -c "mkdir -p $share/image/bin $share/allowed/bin && mkdir $share/bin"
    site_lua <<< 'return {}' | as_user bash -c "cat > $share/none.lua"
    # A user can leave the filter out: the commands read the configuration that SLURM_CONF names.
    slurm_conf_elsewhere /^CliFilterPlugins/d | as_user bash -c "cat > $share/no-filter.conf"
    # A site with a script of its own has added ours to it.
    as_root_on login bash -c 'set -e
        mkdir -p /tmp/before-policy
        cp -p /etc/slurm/slurm.conf /tmp/before-policy/
        if [ -e /etc/slurm/job_submit.lua ]; then
            cp -p /etc/slurm/job_submit.lua /tmp/before-policy/
            exit
        fi
        cp "$1/share/batchai/job_submit.lua" /etc/slurm/job_submit.lua
        echo JobSubmitPlugins=lua >> /etc/slurm/slurm.conf
        scontrol reconfigure' bash "$PREFIX"
    if enforces_associations; then
        as_root_on login sacctmgr -i add account physics,chemistry
        as_root_on login sacctmgr -i add user alice,bob account=physics,chemistry
    fi
    write_jobs
    past_planner cluster create --name big --vm-size BIG --target 4 --output none
}

teardown_file() {
    end_jobs || return
    reset_site
    as_root_on login bash -c 'set -e
        cat /tmp/before-policy/slurm.conf > /etc/slurm/slurm.conf
        scontrol reconfigure
        if [ -e /tmp/before-policy/job_submit.lua ]; then
            cp /tmp/before-policy/job_submit.lua /etc/slurm/
        else
            rm /etc/slurm/job_submit.lua
        fi
        rm -rf /tmp/before-policy /shared/policy'
    if enforces_associations; then as_root_on login sacctmgr -i delete account physics,chemistry; fi
}

enforces_associations() { as_user scontrol show config | grep -q 'AccountingStorageEnforce .*associations'; }

setup() { policy; }
teardown() {
    cancel_jobs
    as_bob scancel --user bob
}

# site: standard input becomes site.lua. slurmctld reads it for the next job.
site() { site_lua | as_root_on login sh -c 'mkdir -p /etc/batchai && cat > /etc/batchai/site.lua'; }

policy() {
    site << LUA
return {
  vm_sizes = { BIG = {} },
  policy = {
    accounts = { "physics", "chemistry" },
    images = { "$share/allowed*", "docker.io/library/*" },
    nodes = 3, minutes = 20,
    users = { bob = { nodes = 4 } },
    vm_sizes = { BIG = { nodes = 1, accounts = { "chemistry" } } },
  },
}
LUA
}

# job NAME PROPERTIES: a job file of two nodes, with more properties.
job() {
    jq -n --argjson more "$2" '{properties: ({nodeCount: 2, stdOutErrPathPrefix: "/shared/policy/logs",
        customMpiSettings: {commandLine: "true"}, slurm: {account: "physics"}} + $more)}' |
        as_user bash -c "cat > $share/$1.json"
}

write_jobs() {
    job good '{}'
    job three '{"nodeCount": 3}'
    job wide '{"nodeCount": 4}'
    job long '{"constraints": {"maxWallClockTime": "PT21M"}}'
    job foreign '{"slurm": {"account": "sports"}}'
    job capital '{"slurm": {"account": "Physics"}}'
    job nobody '{"slurm": {}}'
    job image "{\"containerSettings\": {\"imageSourceRegistry\": {\"image\": \"$share/image\"}}}"
    job allowed "{\"containerSettings\": {\"imageSourceRegistry\": {\"image\": \"$share/allowed\"}}}"
    job big '{"cluster": {"id": "big"}, "slurm": {"account": "chemistry"}}'
}

# past_planner WORDS…: batchai with a site.lua that has no policy, as a user may choose one.
past_planner() {
    as_user env "BATCHAI_SITE=$share/none.lua" "BATCHAI_HOME=$share/records" \
        "PATH=$PREFIX/bin:/usr/bin:/bin" "$PREFIX/bin/batchai" "$@"
}

# past_filter CMD…: sbatch, srun or salloc without the filter. The plugin plans the file.
past_filter() {
    as_user env "BATCHAI_SITE=$share/none.lua" "BATCHAI_HOME=$share/records" \
        "SLURM_CONF=$share/no-filter.conf" "$@"
}

# says TEXT CMD…: the command is refused with the text, by a message of one line.
says() {
    run "${@:2}"
    printf '%s: %s\n' "$status" "$output"
    [[ $status -ne 0 && $output == *"$1"* && $(grep -c 'batchai: ' <<< "$output") -le 1 ]]
}

# shown JOB FIELD: a field of `scontrol show job`.
shown() { as_user scontrol show job "$1" | grep -o "$2=[^ ]*" | head -1; }


# Breaks when the planner does not know the policy.
@test "the planner refuses by the same rules, at the place in the file" {
    local file
    for file in wide:'this site lets alice use at most 3' long:'asks for 21 minutes' \
        foreign:'the account "sports" is not one of' image:"does not allow the image $share/image"; do
        run as_user "$PREFIX/bin/batchai" validate "$share/${file%%:*}.json"
        echo "$output"
        [[ $status -ne 0 && $output == *"${file#*:}"* ]]
        [[ $output == *E117* ]]
    done
    run -0 as_user "$PREFIX/bin/batchai" validate "$share/good.json"
}

# Breaks when job_submit.lua does not see what `batchai job create` declares.
@test "job create with another site.lua is refused by each rule" {
    says 'this site lets alice use at most 3' past_planner job create --config-file "$share/wide.json"
    says 'asks for 21 minutes' past_planner job create --config-file "$share/long.json"
    says 'the account sports is not one of' past_planner job create --config-file "$share/foreign.json"
    # Slurm gives this job the user's default account.
    says 'is not one of those that this site requires' past_planner job create --config-file "$share/nobody.json"
    says "does not allow the image $share/image" past_planner job create --config-file "$share/image.json"
    says '2 nodes of BIG' past_planner job create --config-file "$share/big.json"
    run -0 past_planner job create --config-file "$share/allowed.json" --output none -- --hold
    run -0 past_planner job create --config-file "$share/good.json" --name accepted --output none -- --hold
    # Slurm itself makes the name lower-case.
    run -0 past_planner job create --config-file "$share/capital.json" --name capital --output none -- --hold
}

# Breaks when a job without a time limit runs longer than the policy allows.
@test "a job without a time limit gets the policy's, and no more than the partition's" {
    local id
    id=$(past_planner job create --config-file "$share/good.json" --name fill --query slurmJobId -o tsv -- --hold)
    [[ $(shown "$id" TimeLimit) == TimeLimit=00:20:00 ]]
    id=$(past_planner job create --config-file "$share/good.json" --name filled --query slurmJobId -o tsv \
        -- --hold --partition=debug)
    # The partition's own default of ten minutes is less.
    [[ $(shown "$id" TimeLimit) == TimeLimit=00:10:00 ]]
}

# Breaks when the plugin does not send the declaration with the job.
@test "sbatch, srun and salloc without the filter are refused by each rule" {
    local door words
    for door in sbatch srun salloc; do
        words=(true)
        [[ $door != sbatch ]] || words=(--wrap=true)
        says 'this site lets alice use at most 3' \
            past_filter "$door" -N4 --account=physics --job-json="$share/wide.json" "${words[@]}"
        says 'asks for 21 minutes' \
            past_filter "$door" -N2 --account=physics --time=21 --job-json="$share/good.json" "${words[@]}"
        says 'the account sports is not one of' \
            past_filter "$door" -N2 --account=sports --job-json="$share/good.json" "${words[@]}"
        says "does not allow the image $share/image" \
            past_filter "$door" -N2 --account=physics --job-json="$share/image.json" "${words[@]}"
        says '2 nodes of BIG' \
            past_filter "$door" -N2 --account=chemistry --job-json="$share/big.json" "${words[@]}"
        run past_filter "$door" -N2 --account=physics --job-json="$share/good.json" "${words[@]}"
        echo "$output"
        [[ $status -eq 0 ]]
    done
}

# Breaks when srun --job-image gets around the images of the policy.
@test "--job-image is checked instead of the image of the file" {
    says "does not allow the image $share/image" past_filter srun -N2 --account=physics \
        --job-json="$share/allowed.json" --job-image="$share/image" true
}

# Breaks when a script of the user's own runs a job that says nothing about itself.
@test "a script that calls batchai run says what it runs, or is refused" {
    says 'needs the job'\''s image and VM size' as_user sbatch -N1 --account=physics \
        --wrap="$PREFIX/bin/batchai run --job-json=$share/good.json"
    says 'this site lets alice use at most 3' as_user sbatch -N4 --account=physics \
        --wrap="$PREFIX/bin/batchai run --job-json=$share/good.json"
    run -0 past_filter sbatch -N2 --account=physics --hold --job-json="$share/good.json" \
        --wrap="$PREFIX/bin/batchai run"
}

# Breaks when a line that names no image opens the way to one that the policy does not allow.
@test "the nodes do not start an image that the policy forbids, whatever its job has declared" {
    local id
    as_user bash -c "cp /bin/busybox $share/image/bin/ && ln -sf busybox $share/image/bin/sh &&
        mkdir -p $share/image/{etc,tmp,proc,sys,dev} && cp -r $share/image/. $share/allowed/"
    local image
    for image in image allowed; do
        jq -n --arg image "$share/$image" '{properties: {nodeCount: 1,
            stdOutErrPathPrefix: "/shared/policy/logs", slurm: {account: "physics"},
            containerSettings: {imageSourceRegistry: {image: $image}},
            customToolkitSettings: {commandLine: ("echo ran-" + ($image | split("/") | last))}}}' |
            as_user bash -c "cat > $share/forged-$image.json"
        printf '#!/bin/bash\n#BATCHAI vm_size= image=\n%s run --job-json=%s\n' \
            "$PREFIX/bin/batchai" "$share/forged-$image.json" | as_user bash -c "cat > $share/forged.sh"
        id=$(past_filter sbatch --parsable -N1 --account=physics -o "$share/forged-$image.out" "$share/forged.sh")
        wait_until 120 has_ended "$id"
        as_user bash -c "cat $share/forged-$image.out; find $share/logs -name 'std*.txt' -exec cat {} +" > "$BATS_TEST_TMPDIR/$image"
        cat "$BATS_TEST_TMPDIR/$image"
    done
    grep -q ran-allowed "$BATS_TEST_TMPDIR/allowed"
    run ! grep -q ran-image "$BATS_TEST_TMPDIR/image"
    grep -q "this site does not allow the image $share/image" "$BATS_TEST_TMPDIR/image"
    # Nor any, while nobody knows what the policy allows.
    id=$(past_filter sbatch --parsable -N1 --account=physics -o "$share/unknown.out" \
        --job-json="$share/forged-allowed.json" --wrap "until [ -e $share/broken ]; do sleep 0.2; done; srun sh -c 'echo ran'")
    wait_until 60 as_user test -e "$share/unknown.out"
    as_root_on login sh -c 'echo "return {" > /etc/batchai/site.lua'
    as_user touch "$share/broken"
    wait_until 120 has_ended "$id"
    run as_user cat "$share/unknown.out"
    echo "$output"
    [[ $output == *"/etc/batchai/site.lua:"* && $output != *ran* ]]
}

# Breaks when Slurm's other parts of such a job, which have no script, get past the limits.
@test "heterogeneous jobs of batchai are refused" {
    says 'heterogeneous jobs cannot have --job-json' past_filter sbatch -N2 --account=physics \
        --job-json="$share/good.json" --wrap=true : -N4
    says 'heterogeneous jobs cannot have --job-json' as_user sbatch -N1 --account=physics \
        --wrap="$PREFIX/bin/batchai run" : -N4
    run -0 as_user sbatch --parsable --hold -N1 --output=/dev/null --wrap=true : -N2
    # Slurm cancels such a job only as a whole.
    as_user scancel "$output"
}

# Breaks when a user changes a job to what the policy does not allow.
@test "scontrol update is refused by each rule, but for root" {
    local id account
    id=$(past_planner job create --config-file "$share/good.json" --name change --query slurmJobId -o tsv -- --hold)
    account=$(shown "$id" Account)
    says 'Node count specification invalid' as_user scontrol update "JobId=$id" NumNodes=1-4
    says 'Requested time limit is invalid' as_user scontrol update "JobId=$id" TimeLimit=21
    says 'Invalid account' as_user scontrol update "JobId=$id" Account=sports
    says 'Invalid account' as_user scontrol update "JobId=$id" Account=
    [[ $(shown "$id" NumNodes) == NumNodes=2* && $(shown "$id" TimeLimit) == TimeLimit=00:20:00 ]]
    [[ $(shown "$id" Account) == "$account" ]]
    run -0 as_user scontrol update "JobId=$id" TimeLimit=15
    run -0 as_root_on login scontrol update "JobId=$id" TimeLimit=25
    [[ $(shown "$id" TimeLimit) == TimeLimit=00:25:00 ]]
    says 'Requested time limit is invalid' as_user scontrol update "JobId=$id" TimeLimit=26
    run -0 as_user scontrol update "JobId=$id" TimeLimit=22
    # What does not concern the policy works whatever site.lua is.
    site <<< 'return {'
    run -0 as_user scontrol hold "$id"
    run -0 as_user scontrol update "JobId=$id" Name=other
    says 'Access/permission denied' as_user scontrol update "JobId=$id" TimeLimit=10
}

# Breaks when a job without a time limit gets one of a partition that it moves to.
@test "a job that moves to another partition keeps to the policy's time" {
    local id
    as_root_on login scontrol create PartitionName=brief Nodes=ALL MaxTime=5 State=UP
    as_root_on login scontrol create PartitionName=endless Nodes=ALL MaxTime=UNLIMITED State=UP
    id=$(past_planner job create --config-file "$share/good.json" --name moved --query slurmJobId -o tsv \
        -- --hold --partition=brief)
    run -0 as_user scontrol update "JobId=$id" Partition=endless
    [[ $(shown "$id" TimeLimit) == TimeLimit=00:05:00 ]]
    # This job is older than the policy.
    site <<< 'return {}'
    id=$(past_planner job create --config-file "$share/good.json" --name older --query slurmJobId -o tsv \
        -- --hold --partition=brief)
    policy
    run -0 as_user scontrol update "JobId=$id" Partition=endless
    [[ $(shown "$id" TimeLimit) == TimeLimit=00:20:00 ]]
    cancel_jobs
    as_root_on login scontrol delete PartitionName=brief
    as_root_on login scontrol delete PartitionName=endless
}

# Breaks when a user's own limit does not replace that of all users.
@test "bob may use four nodes" {
    run -0 as_bob env "BATCHAI_SITE=$share/none.lua" sbatch -N4 --account=physics --hold \
        --job-json="$share/wide.json" --wrap=true
    # The record of a job does not have its user's name.
    local id
    id=$(as_bob env "BATCHAI_SITE=$share/none.lua" sbatch --parsable -N3 --account=physics --hold \
        --job-json="$share/three.json" --wrap=true)
    run -0 as_bob scontrol update "JobId=$id" NumNodes=3-4
    run ! as_bob scontrol update "JobId=$id" NumNodes=3-5
    [[ $output == *'Node count specification invalid'* ]]
    as_bob scancel -u bob
}

# Breaks when slurmctld takes such a job for one that does not say what it runs.
@test "a job that is submitted with BATCHAI_DISABLE=1 is a plain one" {
    run -0 as_user env BATCHAI_DISABLE=1 sbatch -N4 --hold --output=/dev/null \
        --job-json="$share/wide.json" --wrap=true
}

# Breaks when the policy stops a job that is not batchai's.
@test "plain jobs pass, whatever site.lua is" {
    local text
    for text in 'return { policy = { nodes = 1, minutes = 1, accounts = { "x" } } }' 'return {' 'error()' \
        'while true do end' 'return { policy = { typo = 1 } }'; do
        site <<< "$text"
        run -0 as_user sbatch -N4 --time=50 --hold --output=/dev/null --wrap=hostname
        run -0 as_user srun -N1 hostname
        says 'batchai: ' past_planner job create --config-file "$share/good.json"
    done
    as_root_on login chmod 000 /etc/batchai/site.lua
    run -0 as_user srun -N1 hostname
    says 'policy cannot be read' past_planner job create --config-file "$share/good.json"
    reset_site
    run -0 as_user srun -N1 hostname
    run -0 past_planner job create --config-file "$share/wide.json" --output none -- --hold
}

# Breaks when our line takes away what a site's own script does.
@test "a job_submit.lua of the site's own keeps working, with one line more" {
    as_root_on login bash -c 'cp /etc/slurm/job_submit.lua /tmp/of-others.lua && cat > /etc/slurm/job_submit.lua' << LUA
function slurm_job_submit(job, parts, uid)
    if job.name == "forbidden" then
        slurm.log_user("the site forbids this name")
        return slurm.ERROR
    end
    job.comment = "seen by the site"
end
function slurm_job_modify(job, record, parts, uid) return slurm.SUCCESS end
$(block_of site.md lua 2 | sed "s|/opt/batchai|$PREFIX|")
return slurm.SUCCESS
LUA
    local id
    says 'the site forbids this name' as_user sbatch --job-name=forbidden --wrap=true
    id=$(as_user sbatch --parsable --hold --output=/dev/null --wrap=true)
    as_user scontrol show job "$id" | grep -F 'Comment=seen by the site'
    # The site's function returns nothing, which must not turn the policy off.
    says 'this site lets alice use at most 3' past_planner job create --config-file "$share/wide.json"
    # slurmctld looks whether the script is newer than its last look.
    as_root_on login sh -c 'cp /tmp/of-others.lua /etc/slurm/job_submit.lua && rm /tmp/of-others.lua'
}
