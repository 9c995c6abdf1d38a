#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# What users of containers on Slurm complain of most, as far as no other suite shows that it does
# not happen here: drained nodes, leftovers of requeued jobs, batch scripts and inner steps, programs
# that the host lacks, silent runs on the host, which variable wins, containers that get mixed up,
# full disks, failures without a reason.

bats_require_minimum_version 1.5.0
load lib
load registry

share=/shared/pains-test
home=/home/alice/pains # which containers see

setup_file() {
    as_root_on login rm -rf "$share"
    as_root_on login install -d -m 1777 "$share"
    as_user mkdir -p "$home"
    image "$share/layout" one one
    image "$share/layout" two two
    write_site ''
}

teardown_file() { as_root_on login rm -rf "$share" "$home"; }

setup() { write_site ''; job "oci:$share/layout:one" 'cat /version'; }

end_server() { as_user bash -c "cat $home/dav.pid | xargs -r kill; rm -f $home/dav.pid" 2> /dev/null || true; }

teardown() {
    end_server
    as_root_on h1 chmod 666 /dev/fuse
    cancel_jobs
    wait_until 60 nothing_is_queued
    wait_until 60 nodes_idle 4
    no_node_is_drained
    wait_until 60 nothing_is_left_on h1
}

write_site() { site_lua <<< "return {$1}" | as_user bash -c "cat > $share/site.lua"; }
with_store() { as_user env "BATCHAI_HOME=$share/store" "BATCHAI_SITE=$share/site.lua" "$@"; }
batchai() { with_store "$PREFIX/bin/batchai" "$@"; }
step() { with_store srun -w h1 --job-json="$share/job.json" "$@"; }

# job IMAGE COMMAND [FILTER]: a job file.
job() {
    jq -n --arg image "$1" --arg command "$2" --arg logs "$share/logs" "{properties: {nodeCount: 1,
        stdOutErrPathPrefix: \$logs, containerSettings: {imageSourceRegistry: {image: \$image}},
        customToolkitSettings: {commandLine: \$command}}} | ${3:-.}" |
        as_user bash -c "cat > $share/job.json"
}

# batch OPTION…: runs a batch job to its end. (sbatch --wait looks ever more seldom.)
batch() {
    local id
    id=$(with_store sbatch --parsable "$@")
    wait_until 170 has_ended "$id"
}

output_of() { batchai job file stream --job "$1" --file-name stdout.txt 2> /dev/null; }
state_is() { [[ $(as_user squeue -h -j "$1" -o %T) == "$2" ]]; }

nothing_is_left_on() { prints_nothing container_processes_on "$1" && prints_nothing job_directories_on "$1"; }

# Breaks when the plugin links a part of Slurm, which then has to be of one version for ever.
@test "the plugin needs nothing of Slurm but its plugin interface" {
    local plugin
    plugin=$(find "$PREFIX"/lib*/ -path '*slurm/batchai.so' | head -n 1)
    run readelf -d "$plugin"
    [[ $status -eq 0 && $output != *libslurm* && $output != *libstdc++* && $output != *libgcc_s* ]]
    run bash -c "nm -D --undefined-only $plugin | awk '{print \$2}' | grep -i -e slurm -e spank | sort"
    echo "$output"
    [[ -n $output ]]
    prints_nothing lines_unlike \
        '^(spank_(context|get_item|getenv|setenv|unsetenv|job_control_(un)?setenv|option_getopt|option_register)|slurm_error)$' \
        echo "$output"
    prints_nothing lines_unlike \
        ' (plugin_(name|type|version)|spank_plugin_version|slurm_spank_[a-z_]+)(@@.*)?$' \
        nm -D --defined-only "$plugin"
}

# Breaks when a requeued job finds the container of its first run, or its own clean-up.
@test "a requeued job starts in a fresh container" {
    local id
    job "oci:$share/layout:one" \
        "ls /of-first-run; : > /of-first-run; echo run >> $home/runs; mapfile -t runs < $home/runs; [[ \${#runs[@]} = 2 ]] || sleep 100" \
        '.properties.jobPreparation = {commandLine: ": > /prepared"}'
    batchai job create -f "$share/job.json" -n requeued -o none
    wait_until 60 as_user test -s "$home/runs"
    id=$(batchai job show -n requeued --query slurmJobId -o tsv)
    as_root_on login scontrol requeue "$id"
    start_again "$id"
    run -0 batchai job wait -n requeued
    [[ $(as_user cat "$home/runs") == $'run\nrun' ]]
    run batchai job file stream --job requeued --file-name stderr.txt
    echo "$output"
    [[ $(grep -c '/of-first-run: No such file' <<< "$output") -eq 2 ]]
    run batchai job show -n requeued --query executionInfo.exitCode
    [[ $output == 0 ]]
}

# Breaks when a step or its container depends on slurmd, or is taken for a leftover by a new one.
@test "a restart of slurmd leaves a running job and its container alone" {
    local running
    as_user rm -f "$home/restarted"
    step bash -c ": > /tmp/pains-began; until [ -e $home/restarted ]; do sleep 0.2; done; cat /version" \
        > "$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    running=$!
    wait_until 60 as_root_on h1 test -e /tmp/pains-began
    as_root_on h1 rm /tmp/pains-began
    kill_slurmd h1
    start_slurmd h1
    as_user touch "$home/restarted"
    wait "$running"
    cat "$BATS_TEST_TMPDIR/out"
    grep -q -x one "$BATS_TEST_TMPDIR/out"
}

# Breaks when a batch script runs inside, or its steps do not.
@test "a batch script runs on the host, its steps in the container, and another file has its own" {
    job "oci:$share/layout:two" true
    as_user cp "$share/job.json" "$share/other.json"
    job "oci:$share/layout:one" true
    as_user bash -c "cat > $share/script.sh" << SCRIPT
#!/bin/bash
#SBATCH --job-json=$share/job.json
ls /version || echo "script: on the host"
srun cat /version
srun --job-json=$share/other.json cat /version
srun --job-image=oci:$share/layout:two cat /version
srun --ignore-container --job-json=$share/job.json ls /version || echo "told to: on the host"
srun cat /version
SCRIPT
    batch -w h1 -o "$share/script.txt" "$share/script.sh"
    run as_user grep -x -e one -e two -e '.*on the host' "$share/script.txt"
    as_user cat "$share/script.txt"
    [[ $output == $'script: on the host\none\ntwo\ntwo\ntold to: on the host\none' ]]
}

# Breaks when --job-image does not reach the filter, the hand-over or `batchai run`.
@test "--job-image replaces an image of the file that is wrong, for every command" {
    local name
    job 'nvcr.io#wrong/image' 'cat /version'
    run step cat /version
    echo "$output"
    [[ $status -ne 0 && $output == *job.json:*nvcr.io* ]]
    for name in "srun cat /version" "salloc srun cat /version"; do
        # shellcheck disable=SC2086
        run with_store ${name%% *} -w h1 --job-json="$share/job.json" --job-image="oci:$share/layout:two" ${name#* }
        echo "$output"
        [[ $status -eq 0 && $output == *two* ]]
    done
    batchai job create -f "$share/job.json" -n replaced --job-image "oci:$share/layout:two" -o none
    run -0 batchai job wait -n replaced
    [[ $(output_of replaced) == two ]]
    # In a script: the image of the submission, or one of its own.
    as_user bash -c "cat > $share/run.sh" << SCRIPT
#!/bin/bash
#SBATCH -o $share/run.txt
$PREFIX/bin/batchai run
$PREFIX/bin/batchai run --job-image oci:$share/layout:one
$PREFIX/bin/batchai run --ignore-container; echo "bare: \$?"
$PREFIX/bin/batchai run --job-image nvcr.io#x; echo "wrong: \$?"
SCRIPT
    batch -w h1 --job-json="$share/job.json" --job-image="oci:$share/layout:two" "$share/run.sh"
    as_user cat "$share/run.txt"
    run as_user bash -c "cat \$(find $share/logs -path '*/stdouterr/stdout.txt' -newer $share/run.sh) | sort"
    [[ $output == $'one\ntwo' ]]
    run as_user cat "$share/run.txt"
    [[ $output == *"bare: 1"*'write "nvcr.io/x"'*"wrong: 2"* ]]
}

# Breaks when a program has to be on the submitting host to run in the image.
@test "a program that only the image has is found there" {
    job "oci:$share/layout:one" of-the-image \
        '.properties.jobPreparation = {commandLine: "echo \"echo found\" > /bin/of-the-image; busybox chmod 755 /bin/of-the-image"}'
    batchai job create -f "$share/job.json" -n found -o none
    run -0 batchai job wait -n found
    [[ $(output_of found) == found ]]
    job "oci:$share/layout:one" true
    # By its path, or by a shell of the image.
    run --separate-stderr step /bin/busybox echo found
    [[ $status -eq 0 && $output == found ]]
    run --separate-stderr step sh -c 'busybox ln -s busybox /bin/tac; echo found | tac'
    [[ $status -eq 0 && $output == found ]]
}

# Breaks when nodes without the plugin run the job on the bare host.
@test "a job is not run on nodes that lack the plugin, and says what is missing" {
    local line
    line=$(plugstack_file)
    as_root_on login mv "$line" "$line.off"
    if site_has configless; then as_root_on login scontrol reconfigure; fi
    batchai job create -f "$share/job.json" -n bare -o none
    run batchai job wait -n bare
    echo "$output"
    as_root_on login mv "$line.off" "$line"
    if site_has configless; then as_root_on login scontrol reconfigure; fi
    [[ $status -ne 0 ]]
    run batchai job show -n bare --query 'executionInfo.errors[0]'
    echo "$output"
    [[ $output == *"batchai.so is not active on node h"* ]]
    run output_of bare
    [[ -z $output ]]
}

# Breaks when a line of the table in docs/containers.md does not hold.
@test "of a variable's values the documented one wins" {
    local config=/etc/cdi/test.json
    as_root_on h1 bash -c "mkdir -p /etc/cdi && cat > $config" << 'JSON'
{"cdiVersion": "0.6.0", "kind": "example.com/none", "devices": [],
 "containerEdits": {"env": ["D=device", "E=device", "F=device"]}}
JSON
    as_user bash -c "cat > $share/config.sh" << SCRIPT
umoci config --image $share/layout:one --tag variables --config.env C=image --config.env D=image \
    --config.env E=image --config.env HOME=/root --config.env PATH=/bin:/of-image
SCRIPT
    as_user bash "$share/config.sh"
    write_site 'environment = {E = "site", F = "site"}'
    job "oci:$share/layout:variables" true '.properties.environmentVariables =
        [{name: "F", value: "job"}, {name: "G", value: "[$A][$C]"}, {name: "PATH", value: "/mine:$PATH"}]
        | .properties.secrets = [{name: "H", value: "secret"}]'
    run --separate-stderr with_store env A=host C=host LD_LIBRARY_PATH=/host PATH="/usr/bin:/bin:$PATH" \
        srun -w h1 --job-json="$share/job.json" bash -c 'echo $A $C $D $E $F $G $H $HOME [$LD_LIBRARY_PATH] $PATH'
    as_root_on h1 rm -r /etc/cdi
    echo "$output"
    [[ $status -eq 0 ]]
    [[ $output == "host image device site job [host][image] secret /home/alice [] /mine:/bin:/of-image" ]]
}

# Breaks when containers are told apart by the image alone, or by the job alone.
@test "jobs on one node, and files within a job, have containers of their own" {
    as_user bash -c "cat > $share/two.sh" << SCRIPT
#!/bin/bash
srun --overlap -n1 sh -c ': > /of-one; until [ -e $home/end ]; do sleep 0.1; done' &
until ls -d /tmp/batchai-20001/container-\$SLURM_JOB_ID-*/upper/of-one; do sleep 0.1; done 2> /dev/null
srun --overlap -n1 --job-image=oci:$share/layout:two sh -c 'cat /version; ls /of-one; : > /of-two'
srun --overlap -n1 sh -c 'cat /version; ls /of-one /of-two'
env -u SLURM_JOB_ID -u BATCHAI_PLAN srun -w h1 --oversubscribe --job-json=$share/job.json sh -c 'ls /of-one'
touch $home/end
wait
SCRIPT
    write_site "exclusive = false"
    as_user rm -f "$home/end" "$share/two.txt"
    batch -w h1 -n1 --oversubscribe -o "$share/two.txt" --job-json="$share/job.json" "$share/two.sh"
    run as_user cat "$share/two.txt"
    echo "$output"
    [[ $(grep -x -e one -e two -e /of-one <<< "$output") == $'two\none\n/of-one' ]]
    [[ $(grep -c "No such file" <<< "$output") -eq 3 ]]
}

# Breaks when a full disk of a node is the node's failure, or the message has no path.
@test "a node without room fails the job with the place, and the next job runs" {
    as_root_on h1 install -d -m 777 /tmp/small
    as_root_on h1 mount -t tmpfs -o size=2m,mode=1777 tmpfs /tmp/small
    write_site 'node_directory = "/tmp/small"'
    job "oci:$share/layout:one" true '.properties.jobPreparation = {commandLine: "cat /dev/zero > /full"}'
    batchai job create -f "$share/job.json" -n full -o none
    run ! batchai job wait -n full
    run batchai job show -n full --query 'executionInfo.errors[0]'
    echo "$output"
    [[ $output == *JobPreparationFailed*"No space left on device"* ]]
    as_root_on h1 bash -c 'head -c 3M /dev/zero > /tmp/small/all || true'
    run step true
    echo "$output"
    as_root_on h1 umount -l /tmp/small
    as_root_on h1 rmdir /tmp/small
    [[ $status -ne 0 && $output == *"/tmp/small/batchai-20001"*"No space left"* ]]
    write_site ''
    step true
}

# Breaks when the reason why a container cannot be made is in no record, or only in a node's log.
@test "a container that cannot be made on a node fails the job with node and reason" {
    as_root_on h1 chmod 600 /dev/fuse
    batchai job create -f "$share/job.json" -n closed -o none
    run ! batchai job wait -n closed
    as_root_on h1 chmod 666 /dev/fuse
    run batchai job show -n closed --query 'executionInfo.errors[0]'
    echo "$output"
    [[ $output == *FailedStartingContainer*h1*"/dev/fuse"* ]]
}

# Breaks when the end of a step waits for slow storage until Slurm drains the node, or what the storage
# has not got is lost.
slow_job_says() {
    as_user bash -c "grep -q '$1' \$(dirname \$(grep -l slow $share/store/hand-over/*/plan.json))/node/h1.log"
}
@test "a killed step ends soon, slow storage gets its time, and what it has not got then is saved" {
    needs_rclone
    local id address
    address=$(as_user getent ahostsv4 login | sed -n '1s/ .*//p')
    as_user bash -c "umask 077; mkdir -p $home/dav/box; echo sesame > $home/key; rm -f $home/written"
    as_user bash -c "RCLONE_USER=alice RCLONE_PASS=sesame setsid rclone serve webdav --config= \
        --bwlimit 20k --addr $address:8097 $home/dav < /dev/null > $home/dav.log 2>&1 & echo \$! > $home/dav.pid"
    wait_until 60 as_user grep -q "WebDav Server started" "$home/dav.log"
    write_site "flush_timeout = 90, storage_accounts = { slow = { credentials_file = '$home/key',
        blob_container_remote = { type = 'webdav', url = 'http://$address:8097', vendor = 'other', user = 'alice' }}}"
    job "" "" 'del(.properties.containerSettings) | .properties.mountVolumes.azureBlobFileSystems =
        [{accountName: "slow", containerName: "box", relativeMountPath: "slow"}]
        | .properties.customToolkitSettings.commandLine = "true"'
    step bash -c "head -c 4000000 /dev/zero > \$AZ_BATCHAI_JOB_MOUNT_ROOT/slow/result; : > $home/written; sleep 300" \
        > "$BATS_TEST_TMPDIR/step" 2>&1 3>&- &
    wait_until 60 as_user test -e "$home/written"
    id=$(as_user squeue -h -o %i)
    as_user scancel --signal=TERM "$id.0"
    # Well before the storage has had its time.
    wait_until 60 has_ended "$id"
    wait || true
    cat "$BATS_TEST_TMPDIR/step"
    wait_until 240 slow_job_says "are saved in "
    slow_job_says "what the job wrote is still being stored"
    no_node_is_drained
    run as_user find "$share/store/hand-over" -path '*/unsaved/h1/slow/result' -size 4000000c
    [[ -n $output ]]
}
