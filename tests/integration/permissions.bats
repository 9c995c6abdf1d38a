#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# What one user, alice, gets at by forging variables, files and directories, and what another, bob,
# gets at of hers: nothing. Each attempt ends with a message that names the place; the job fails,
# no node is drained, and the next job runs.

bats_require_minimum_version 1.5.0
load lib
load registry

share=/shared/permissions-test
records=$share/records # of alice, below a directory that everybody can enter

as_bob_on() { "$MINICLUSTER" exec --user bob --host "$1" -- "${@:2}"; }
as_alice() { as_user env "BATCHAI_HOME=$records" "$@"; }
batchai() { as_alice "$PREFIX/bin/batchai" "$@"; }

setup_file() {
    as_root_on login rm -rf "$share"
    as_root_on login install -d -m 1777 "$share"
    as_bob bash -c 'umask 077; mkdir -p ~/private; echo hush > ~/private/secret'
    as_root_on login bash -c 'umask 077; mkdir -p /shared/permissions-root; echo hush > /shared/permissions-root/secret'
}

teardown_file() {
    as_root_on login rm -rf "$share" /shared/permissions-root
    as_bob rm -rf /home/bob/private
}

setup() {
    job true
    wait_until 60 nothing_is_queued
    as_root_on h1 rm -rf /tmp/batchai-20001
}

# Whatever was tried: no node is drained for it, nothing is left of it, and the next job runs.
teardown() {
    cancel_jobs
    reset_site
    wait_until 60 nothing_is_queued
    no_node_is_drained
    job 'echo fine'
    run --separate-stderr step -n1 echo fine
    [[ $status -eq 0 && $output == fine ]]
}

# job COMMAND [FILTER]: alice's job file.
job() {
    jq -n --arg command "$1" --arg logs "$share/logs" "{properties: {nodeCount: 1,
        stdOutErrPathPrefix: \$logs, secrets: [{name: \"TOKEN\", value: \"hunter2\"}],
        customToolkitSettings: {commandLine: \$command}}} | ${2:-.}" |
        as_user bash -c "cat > $share/job.json"
}

step() { as_alice srun -w h1 --job-json="$share/job.json" "$@"; }

# Sets plan and digest: where a job of alice's is frozen.
hand_over() {
    local lines
    lines=$(batchai hand-over --job-json "$share/job.json" 2> /dev/null)
    plan=$(sed -n 's/^BATCHAI_PLAN=//p' <<< "$lines")
    digest=$(sed -n 's/^BATCHAI_PLAN_DIGEST=//p' <<< "$lines")
    [[ $plan == "$records"/*/plan.json && ${#digest} -eq 64 ]]
}

# refused WORDS COMMAND…: it fails, runs nothing, and says WORDS, in few lines.
refused() {
    local words=$1
    shift
    run "$@"
    echo "${output:0:2000}"
    [[ $status -ne 0 && $output == *"$words"* && $'\n'$output != *$'\n'ran* && ${#output} -lt 6000 ]]
}

# Breaks when a job's directory can be entered by others, or its plan runs for somebody else.
@test "another user's job can be neither read nor run" {
    hand_over
    run as_bob cat "$plan"
    [[ $output == *"Permission denied"* ]]
    run as_bob bash -c "ls -R $records; cat ${plan%/*}/secrets.json"
    [[ $output == *"Permission denied"* && $output != *plan.json* && $output != *hunter2* ]]
    refused "$plan: cannot read: Permission denied" as_bob \
        env "BATCHAI_PLAN=$plan" "BATCHAI_PLAN_DIGEST=$digest" srun -w h1 echo ran
    refused "Permission denied" as_bob srun -w h1 --job-json="$plan" echo ran
    refused "Permission denied" as_bob salloc -w h1 \
        "$PREFIX/bin/batchai" run --plan "$plan" --digest "$digest"
    # A plan that bob can read, with alice's directory in it.
    as_user cat "$plan" | as_bob bash -c 'cat > ~/private/plan.json'
    refused "cannot be examined: Permission denied" as_bob env BATCHAI_PLAN=/home/bob/private/plan.json \
        "BATCHAI_PLAN_DIGEST=$digest" srun -w h1 echo ran
    as_root_on login chmod 755 "$records" "$records/hand-over" "${plan%/*}"
    refused "belongs to user 20001, not to you" as_bob env BATCHAI_PLAN=/home/bob/private/plan.json \
        "BATCHAI_PLAN_DIGEST=$digest" srun -w h1 echo ran
    as_root_on login chmod 700 "$records" "$records/hand-over" "${plan%/*}"
    prints_nothing as_root_on login find "$records" -user bob
}

# Breaks when the digest is not compared, by batchai run or on the node.
@test "a plan that is changed between submission and start is not run, and job show says so" {
    local blocker
    blocker=$(as_user sbatch --parsable -N4 --exclusive -o /dev/null --wrap 'sleep 600')
    job 'echo ran'
    batchai job create -f "$share/job.json" -n changed -o none
    as_alice bash -c "sed -i 's/echo ran/echo ran; id/' $records/groups/*/workspaces/*/experiments/*/jobs/changed/plan.json"
    as_user scancel "$blocker"
    run batchai job wait -n changed
    echo "$output"
    [[ $status -ne 0 ]]
    run batchai job show -n changed --query 'executionInfo.errors[0]'
    echo "$output"
    [[ $output == *"plan.json: has changed since the job was submitted"* ]]
    prints_nothing as_user find "$share/logs" -name stdout.txt -path '*changed*'
    run as_alice salloc -w h1 --job-json="$share/job.json" bash -c 'echo >> $BATCHAI_PLAN; srun echo ran'
    echo "$output"
    [[ $status -ne 0 && $output == *"changed since the job was submitted"* && $output != *$'\nran'* ]]
}

# forged FILTER: alice runs a step with a plan of her own making.
forged() {
    as_user jq "$1" "$plan" | as_alice bash -c 'umask 077; cat > '"$records"'/forged.json'
    digest=$(as_user sha256sum "$records/forged.json" | cut -d' ' -f1)
    as_alice env "BATCHAI_PLAN=$records/forged.json" "BATCHAI_PLAN_DIGEST=$digest" srun -w h1 \
        bash -c 'echo ran; cat $AZ_BATCHAI_JOB_MOUNT_ROOT/x/*; ls -A $AZ_BATCHAI_JOB_MOUNT_ROOT/x; id -u'
}

# Breaks when anything of a plan is done with more rights than the user's own.
@test "a plan of the user's own making reaches nothing of root's or of another user's" {
    job true '.properties.mountVolumes.azureFileShares = [{azureFileUrl:
        "https://a.file.core.windows.net/s", relativeMountPath: "x"}]'
    hand_over
    for source in /shared/permissions-root /home/bob/private; do
        run forged ".mounts[0].source = \"$source\" | .mounts[0].createSource = false"
        echo "$output"
        [[ $output != *hush* && $output != *$'\nsecret'* && $output != *$'\n0'* ]]
        run forged ".mounts[0].source = \"$source/new\" | .mounts[0].createSource = true"
        echo "$output"
        [[ $status -ne 0 && $output == *"Permission denied"* && $output != *$'\nran'* ]]
    done
    refused "../../../../etc" forged '.mounts[0].target = "../../../../etc"'
    refused "cannot be made: Permission denied" forged '.directories.nodeRoot = "/etc" | .directories.jobTemp = "/etc/x"
        | .directories.jobMountRoot = "/etc/x/mounts" | .directories.mountRoot = "/etc/x/cluster"'
    refused "is not below" forged '.directories.jobTemp = "/home/bob/x"
        | .directories.jobMountRoot = "/home/bob/x/mounts"'
    refused "names a job directory other than its own" forged '.directories.jobDirectory = "/home/bob"'
    refused "belongs to user 20002" forged '.directories.jobDirectory = "/home/bob"
        | .directories.planDirectory = "/home/bob"'
    run as_root_on login bash -c 'ls -A /home/bob/private /shared/permissions-root; ls -d /etc/x /home/bob/x /home/bob/node'
    echo "$output"
    [[ $(grep -cx secret <<< "$output") -eq 2 && $output != *new* ]]
}

# Breaks when a forged option or marker runs a step bare, or a faulty one is passed over.
@test "forged options and markers in the environment do what the option does, or are refused" {
    # Slurm tells the node of the option, but asks nobody for a plan. To a job of its own it is nothing.
    for name in job_json job_image; do
        refused "the plan did not reach this node" as_alice salloc -w h1 env \
            "_SLURM_SPANK_OPTION_batchai_$name=$share/job.json" srun echo ran
        run -0 as_alice env "_SLURM_SPANK_OPTION_batchai_$name=$share/job.json" srun -w h1 env
        [[ $output != *batchai_job* && $output != *AZ_BATCH* ]]
    done
    refused "are not what batchai put there" as_alice env BATCHAI_PLAN=x BATCHAI_PLAN_DIGEST=y srun echo ran
    refused "/dev/zero" as_alice env BATCHAI_PLAN=/dev/zero "BATCHAI_PLAN_DIGEST=$(printf '%064d' 0)" srun echo ran
    # The proof of a sandbox, without one: the step is given its own or none.
    hand_over
    run as_alice env "BATCHAI_SANDBOX=$digest" srun -w h1 --job-json="$share/job.json" --export=BATCHAI_SANDBOX echo ran
    echo "$output"
    [[ $status -ne 0 && $output == *"--export"* && $output != *$'\nran'* ]]
    # What a batch script hands on to its steps is nothing to a job of its own.
    as_alice env SLURM_SPANK__SLURM_SPANK_OPTION_batchai_job_json=/nowhere.json \
        sbatch --wait -o "$share/inner.txt" --wrap "srun echo 'plain '\$BATCHAI_SANDBOX"
    [[ $(as_user cat "$share/inner.txt") == "plain " ]]
    as_alice sbatch --wait -o "$share/inner.txt" --job-json="$share/job.json" --wrap \
        'srun echo first; SLURM_SPANK__SLURM_SPANK_OPTION_batchai_job_json=/nowhere.json srun bash -c "echo frozen \$TOKEN"
         env -u BATCHAI_PLAN srun echo second'
    run as_user cat "$share/inner.txt"
    echo "$output"
    # The step before may not have ended yet.
    run -0 lines_unlike '^srun: .*(step creation temporarily disabled|Step created)' printf '%s\n' "$output"
    [[ $output == $'first\nfrozen hunter2\nsecond' ]]
}

# Breaks when a value that no program can be given is found late, or shown in full.
@test "values that are too long are refused before anything is submitted" {
    local before long option value
    before=$(next_job)
    long=$(head -c 100000 /dev/zero | tr '\0' x)
    for option in job-json job-image; do
        { echo '#!/bin/bash'; printf '#SBATCH --%s=' "$option"
          head -c 300000 /dev/zero | tr '\0' x; printf '\necho ran\n'; } |
            as_user bash -c "cat > $share/long.sh"
        refused "bytes long" as_alice sbatch --wait "$share/long.sh"
        refused "bytes long" as_alice srun "--$option=$long" echo ran
    done
    for value in '.environmentVariables = [{name: "LONG", value: $long}]' \
        '.customToolkitSettings.commandLine = $long' '.jobPreparation = {commandLine: $long}' \
        '.containerSettings = {imageSourceRegistry: {image: $long}}' \
        '.mountVolumes.fileServers = [{fileServer: {id: "x"}, relativeMountPath: $long}]' \
        '.secrets[0].value = $long' '.stdOutErrPathPrefix = "/" + $long'; do
        job true "(\"x\" * 300000) as \$long | .properties$value"
        refused "job.json:" step echo ran
        refused "job.json:" batchai job create -n long -f "$share/job.json"
    done
    job true '.properties.environmentVariables = [{name: "LONG", value: ("x" * 1200000)}]'
    refused "1 MiB" step echo ran
    [[ $(next_job) -eq $before ]]
}

# Breaks when bytes that are no text get into a plan, or onto the user's terminal.
@test "bytes that are no text are refused with their place, in files, options and variables" {
    local before
    before=$(next_job)
    as_user bash -c "printf '{\"properties\": {\"nodeCount\": 1, \"x\xff\xfe\": 2}}' > $share/bytes.json"
    refused "bytes.json:1:" as_alice srun --job-json="$share/bytes.json" echo ran
    [[ $output == *UTF-8* && $output != *$'\xff'* ]]
    refused "not UTF-8" as_alice srun --job-json="$share/"$'\xff\xfe.json' echo ran
    refused "not UTF-8" step --job-image=$'\xff\xfe' echo ran
    job true '.properties.mountVolumes.azureFileShares = [{azureFileUrl:
        "https://<AZURE_BATCHAI_STORAGE_ACCOUNT>.file.core.windows.net/s", relativeMountPath: "x"}]'
    refused "account" as_alice env AZURE_BATCHAI_STORAGE_ACCOUNT=$'\xff\xfe' \
        srun -w h1 --job-json="$share/job.json" echo ran
    job true '.properties.environmentVariables = [{name: "A", value: "[$ODD]"}]'
    run as_alice env ODD=$'\xff\xfe' srun -w h1 --job-json="$share/job.json" bash -c 'echo "A=$A"'
    echo "$output"
    [[ $status -eq 0 && $output == *"ODD is not known"*"A=[]"* ]]
    refused "UTF-8" as_user env "BATCHAI_HOME=$share/"$'\xff\xfe' srun -w h1 \
        --job-json="$share/job.json" echo ran
}

# Breaks when a directory that somebody else has made on the node is used, or its clean-up drains
# the node.
@test "a node directory that somebody else has planted is passed over" {
    local plant
    for plant in 'mkdir -m 777 /tmp/batchai-20001' 'ln -s /home/bob/private /tmp/batchai-20001' \
        'ln -s /etc /tmp/batchai-20001' 'touch /tmp/batchai-20001' 'mkfifo /tmp/batchai-20001'; do
        as_bob_on h1 bash -c "$plant"
        run -0 step echo ran
        [[ $output == *ran* ]]
        prints_nothing as_root_on h1 find /tmp/batchai-20001 /etc -user alice
        prints_nothing as_bob_on h1 find /home/bob/private -user alice
        wait_until 60 nothing_is_queued
        as_root_on h1 bash -c 'rm -rf /tmp/batchai-20001*'
    done
    as_user_on h1 mkdir -m 700 /tmp/batchai-20001
    as_user_on h1 chmod 777 /tmp/batchai-20001
    run -0 step echo ran
    [[ $output == *ran* ]]
    wait_until 60 nothing_is_queued
    as_root_on h1 bash -c 'rm -rf /tmp/batchai-20001*'
}

# sleeping_job: prints the id of a job of alice's that runs on h1 and has its mounts there.
sleeping_job() {
    as_alice sbatch --parsable -w h1 -o "$share/batch.txt" --job-json="$share/job.json" \
        --wrap 'srun sleep 600'
    wait_until 60 as_root_on h1 bash -c 'ls -d /tmp/batchai-20001/*/mounts'
}

# Breaks when the epilog's failure is Slurm's.
@test "an epilog that cannot clean up fails nothing and is made good by the next job" {
    local id
    id=$(sleeping_job)
    as_root_on h1 bash -c 'chown bob /tmp/batchai-20001'
    as_user scancel "$id"
    wait_until 60 has_ended "$id"
    no_node_is_drained
    as_root_on h1 chown alice /tmp/batchai-20001
    as_user_on h1 "$PREFIX/libexec/batchai/batchai-node" clean --job-id "$id"
    prints_nothing job_directories_on h1
}

# Breaks when nobody cleans up after a job whose epilog slurmd's end has cut short. Slurm runs it once.
@test "what an epilog that ended with slurmd has left goes with the next job" {
    local id
    id=$(sleeping_job)
    # The clean-up waits for the lock of alice's directory.
    as_root_on h1 bash -c 'flock --no-fork /tmp/batchai-20001 sleep 100 > /dev/null 2>&1 3>&- 4>&- &
        echo $! > /run/lock-holder'
    as_user scancel "$id"
    wait_until 60 as_root_on h1 pgrep -f "batchai-node clean --job-id $id"
    # Patterns that do not match this command.
    as_root_on h1 bash -c 'pkill -KILL -x slurmd; pkill -KILL -f "[s]lurmstepd spank|[b]atchai-node clean"
        kill -KILL $(cat /run/lock-holder); rm /run/lock-holder
        while pgrep -x slurmd > /dev/null; do sleep 0.1; done'
    [[ -n $(job_directories_on h1) ]]
    start_slurmd h1
    wait_until 120 has_ended "$id"
    as_root_on h1 touch -d "1 hour ago" "/tmp/batchai-20001/by-job/$id.boot"
    run step -n1 echo fine
    [[ $status -eq 0 && $output == *fine* ]]
    wait_until 60 prints_nothing job_directories_on h1
}

# Breaks when a mistake of the admin's leaves everything behind, or nobody learns of it.
@test "an epilog cleans up although site.lua is broken, and says so in slurmd's log" {
    local id
    id=$(sleeping_job)
    as_root_on login bash -c 'mkdir -p /etc/batchai && echo "return {" > /etc/batchai/site.lua'
    as_user scancel "$id"
    wait_until 60 has_ended "$id"
    wait_until 60 prints_nothing job_directories_on h1
    # The end of the step may have removed them before the epilog started.
    wait_until 60 as_root_on h1 grep -q \
        "batchai: epilog of job $id: the clean-up failed; run \".*/batchai-node clean --job-id $id\"" \
        /run/slurm/slurmd.log
    no_node_is_drained
}

# For the scripts below: a remote file system shows a node its changes only after a while.
seen='seen() { # seen WORDS PATH: waits until the node sees these words of stat
    for _ in {1..40}; do
        [[ $(env -i PATH="$PATH" SLURM_JOB_ID="$SLURM_JOB_ID" srun -n1 stat -c "%F %a" "$2") == "$1" ]] && return
        sleep 0.3
    done
    echo "$2 is not $1" >&2
    exit 1
}'

# Breaks when a link in place of a job's directory is followed.
@test "a job's directory in whose place there is a link, or that others can write to, is refused" {
    run as_alice salloc -w h1 --job-json="$share/job.json" bash -c "$seen"'
        d=${BATCHAI_PLAN%/*}
        mv $d $d.moved; ln -s $d.moved $d; seen "symbolic link 777" $d; srun echo ran
        rm $d; mv $d.moved $d; chmod 777 $d; seen "directory 777" $d; srun echo ran'
    echo "$output"
    [[ $output == *"is a symbolic link"*"can be written to by others"*"chmod go-w"* ]]
    [[ $output != *$'\nran'* ]]
}

# Breaks when a node trusts a cache that was made open, or an image that was put there, after the
# submission.
@test "an image that others can exchange between submission and start is not run" {
    as_user mkdir -p "$share/cache/alice"
    image "$share/layout" one one
    site_lua <<< "return {image_directory = \"$share/cache/%u\"}" | as_user bash -c "cat > $share/site.lua"
    job true ".properties.containerSettings = {imageSourceRegistry: {image: \"oci:$share/layout:one\"}}"
    as_user bash -c "cat > $share/exchange.sh" << SCRIPT
$seen
cache=$share/cache/alice
image=\$(ls \$cache/*.squashfs)
chmod 777 \$cache; seen "directory 777" \$cache; srun echo ran
chmod 700 \$cache; seen "directory 700" \$cache
chmod 666 \$image; seen "regular file 666" \$image; srun echo ran
chmod 444 \$image; seen "regular file 444" \$image; srun cat /version
SCRIPT
    run as_alice env "BATCHAI_SITE=$share/site.lua" salloc -w h1 --job-json="$share/job.json" \
        bash "$share/exchange.sh"
    echo "$output"
    [[ $output == *"$share/cache/alice: can be written to by others"*"squashfs: can be written to by others"* ]]
    [[ $'\n'$output != *$'\n'ran* && $'\n'$output == *$'\none\n'* && $output == *"chmod go-w"* ]]
}

# Breaks when "/", ".." or a link lets a mount appear outside of the mount root.
@test "no mount path leads out of the mount root" {
    local path
    for path in .. ../x a/../../x /etc '/' '.' '' './x/../..' "$(printf 'a/%.0s' {1..600})"; do
        job true ".properties.mountVolumes.azureFileShares = [{relativeMountPath: $(jq -n --arg p "$path" '$p'),
            azureFileUrl: \"https://a.file.core.windows.net/s\"}]"
        refused "relativeMountPath" step echo ran
    done
}
