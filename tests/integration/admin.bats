#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# `batchai admin check` on the test cluster: it finds nothing wrong with a sound installation but
# what the cluster is known to lack, and it finds each fault that is planted here and says what to
# do. The faults that cannot be planted without harm to the other suites are in
# tests/unit/admin/checks_test.cpp.

bats_require_minimum_version 1.5.0
load lib

setup_file() {
    make_home admin
    as_root_on login bash -c 'set -e
        mkdir -p /tmp/before-admin
        cp -p /etc/slurm/cli_filter.lua "$1" /tmp/before-admin/' bash "$(plugstack_file)"
    # Another suite may have put the files in place again, which the check would warn of.
    restart_slurmds
}

setup() {
    file=$(plugstack_file)
    line=$(as_user grep '^optional' "$file")
}

teardown() {
    # What the test about differing nodes has put over their files.
    as_root_on h2 sh -c '! mountpoint -q /etc/batchai/site.lua || umount /etc/batchai/site.lua'
    # shellcheck disable=SC2016 # for the inner shell
    as_root_on h3 sh -c '! mountpoint -q "$1" || umount "$1"' sh "$PREFIX/bin"
    as_root_on h4 sh -c '! grep -q "^none /home " /proc/mounts || umount /home'
    as_root_on login bash -c 'set -e
        cd /tmp/before-admin
        cp -p cli_filter.lua /etc/slurm/
         cp -p "${1##*/}" "$1"
         rm -rf /shared/admin /etc/batchai/admin-test.d /home/alice/admin-check /home/bob/admin-check
         ! sinfo -h -N -n h4 -t drain -o %N | grep -q . || scontrol update NodeName=h4 State=RESUME' bash "$file"
    reset_site
    cancel_jobs
    wait_until 60 nothing_is_queued
    wait_until 60 nodes_idle 4
}

teardown_file() {
    as_root_on login rm -rf /tmp/before-admin
    remove_home
}

# check WORDS…: prints the report, and passes on no exit code.
check() { batchai admin check "$@" || true; }

# finds SEVERITY ID TEXT [WORDS…]: the check with these words finds it, with a remedy below.
finds() {
    local report
    report=$(check --only "$2" "${@:4}")
    if ! grep -A1 -E "^$1 +${2//./\\.} " <<< "$report" | grep -F -A1 -e "$3" | grep -q ' remedy: '; then
        printf 'not found: %s %s %s in:\n%s\n' "$1" "$2" "$3" "$report" >&2
        return 1
    fi
}

# site TEXT: becomes site.lua.
site() {
    site_lua <<< "$1" | as_root_on login sh -c 'mkdir -p /etc/batchai && cat > /etc/batchai/site.lua'
}

# plugstack TEXT: becomes the file with our line.
plugstack() {
    # shellcheck disable=SC2016 # for the inner shell
    as_root_on login sh -c 'printf "%s\n" "$1" > "$2"' plugstack "$1" "$file"
}

# warned_of: the warnings about the test cluster itself. It follows processes by their parents, unless it has
# control groups, and waits 30 s for those that do not end.
warned_of() {
    site_has cgroup1 || site_has cgroup2 || echo proc.tracking
    echo slurm.unkillable
}

@test "a sound cluster has no errors, and each node has answered" {
    run -1 --separate-stderr batchai admin check --cluster
    [[ $output == *$'\n0 errors, '* ]]
    local warnings
    # What depends on the machine on which the cluster is simulated is left out.
    warnings=$(awk '$1 == "warning" && $2 !~ /^(dir\.node-space|gpu\.cdi|net\.memlock)$/ { print $2 }' \
        <<< "$output" | sort)
    diff <(echo "$warnings") <(warned_of)
    [[ $output == *'nodes.answer         h1, h2, h3, h4: the check runs'* ]]
    [[ $output == *'h1, h2, h3, h4: the clocks agree'* ]]
    # shellcheck disable=SC2154 # run sets it
    [[ $stderr == *'checking 4 nodes of the partition main'* ]]
    wait_until 60 nothing_is_queued
    # Nothing is left of the reports.
    prints_nothing as_user find "$HOME_DIR/records" -mindepth 1
}

@test "the report as JSON has the same findings and a version of its form" {
    check --json | as_user "$PYTHON" -c '
import json, sys
report = json.load(sys.stdin)
assert report["schemaVersion"] == 1, report
assert report["slurm"] and report["host"] == "login", report
found = {check["id"]: check for check in report["checks"]}
assert found["plugin.loads"]["severity"] == "ok", found
assert found["slurm.unkillable"]["severity"] == "warning" and found["slurm.unkillable"]["remedy"], found
'
}

@test "a check explains itself, and a wrong name is refused with the one that was meant" {
    run -0 batchai admin check --explain plugin.abi
    [[ $output == 'plugin.abi: the version of Slurm that the plugin was built for'* ]]
    run -2 batchai admin check --only plugin.lime
    [[ $output == *'there is no check "plugin.lime"'*'did you mean "plugin.line"?'* ]]
    run -2 batchai admin check --this-host --cluster
    run -2 batchai admin check --only nodes.site
    [[ $output == *'nothing is checked: nodes.site'*'add --cluster'* ]]
    run -2 as_root_on login "$PREFIX/bin/batchai" admin check --cluster
    run -5 batchai admin check --nodes h9
    [[ $output == *'Slurm has no node "h9"'* ]]
}

@test "exit codes: 0 nothing to do, 1 warnings, 2 errors, 3 not known" {
    run -0 batchai admin check --only mpi
    run -1 batchai admin check --only slurm.unkillable
    site 'return {'
    run -2 batchai admin check --only site.file
    run -3 batchai admin check --only site.partitions
}

@test "faults of plugstack.conf: no line, two lines, required, an argument, a wrong word" {
    plugstack '# nothing'
    finds error plugin.line 'no line of'
    finds error plugin.loads 'has not loaded the plugin'
    plugstack "$line"$'\n'"$line"
    finds error plugin.line 'loaded 2 times'
    plugstack "${line/optional/required}"
    finds warning plugin.line 'the plugin is required'
    plugstack "$line time_out=40"
    finds warning plugin.arguments 'time_out=40'
    plugstack "${line/optional/optionel}"
    finds warning plugin.arguments '"optionel" is neither'
}

@test "faults of the plugin: not there, open to others, for another Slurm" {
    local plugin=${line#optional }
    plugstack "optional $PREFIX/lib/none/batchai.so"
    finds error plugin.file 'No such file'
    finds error plugin.abi 'No such file'
    as_root_on login mkdir -p /shared/admin
    as_root_on login cp "$plugin" /shared/admin/batchai.so
    as_root_on login chmod 0666 /shared/admin/batchai.so
    plugstack 'optional /shared/admin/batchai.so'
    finds error plugin.file 'can be written to by others'
    # 22.05.x becomes 99.01.x: of the number 0x160508, the lowest byte comes first.
    local series month
    series=$(slurm_series)
    month=$((10#${series#*.}))
    # shellcheck disable=SC2016 # for the inner shell
    as_root_on login sh -c 'cd /shared/admin && chmod 0644 batchai.so &&
        LC_ALL=C sed -i "s/\(.\)\x$1\x$2\x00/\1\x01\x63\x00/g" batchai.so' sh \
        "$(printf %02x "$month")" "$(printf %02x "${series%.*}")"
    finds error plugin.abi 'built for Slurm 99.01.'
    # Slurm does not load it; pains.bats tells what becomes of jobs of ours then. Other steps run.
    run -0 as_user srun -N 1 echo ran
    [[ $output == *'Incompatible plugin version'* && $output == *ran* ]]
    run ! as_user srun --job-json=/none -N 1 echo ran
    [[ $output == *"unrecognized option '--job-json=/none'"* ]]
}

# Breaks when the files that name the plugin may be anybody's.
@test "plugstack.conf is open to others" {
    as_root_on login chmod 0666 "$file"
    finds warning plugin.file "${file##*/}: "
    finds warning plugin.file 'can be written to by others'
    as_root_on login chmod 0644 "$file"
}

# says_fetched_again: for wait_until. A copy that comes within seconds of slurmd's start is that of its start.
says_fetched_again() {
    as_root_on login scontrol reconfigure
    local wanted='^info +plugin\.epilog .*slurmd has fetched plugstack\.conf again since it started'
    if slurm_is_from 23.11; then wanted='^ok +plugin\.epilog '; fi
    check --only plugin.epilog --nodes h2 | grep -E "$wanted"
}

@test "slurmd is older than the plugin's line" {
    if site_has hidepid; then skip "users of this site do not see the processes of root"; fi
    # The time that a package gives to a file is that of its build.
    as_root_on login touch -d '2020-01-01' "$file"
    if site_has configless; then
        # The age of a copy says nothing of that.
        wait_until 60 says_fetched_again
    elif slurm_is_from 23.11; then
        # Slurm need not be started again.
        run check --only plugin.epilog --nodes h2
        echo "$output"
        [[ $output == *"info     plugin.epilog"*"newer than the running slurmd; \"scontrol reconfigure\""* ]]
    else
        finds warning plugin.epilog 'newer than the running slurmd' --nodes h2
    fi
}

@test "faults of the command-line filter: not there, not ours" {
    as_root_on login rm /etc/slurm/cli_filter.lua
    finds error filter.active 'Slurm refuses every job'
    as_root_on login sh -c 'echo "function slurm_cli_pre_submit() return 0 end" > /etc/slurm/cli_filter.lua'
    finds warning filter.active 'does not load ours'
}

@test "faults of site.lua: syntax, an unknown key, open to others, a partition, a PMI, a directory" {
    site 'return {'
    finds error site.file 'site.lua:'
    site 'return { defualt_partition = "main" }'
    finds error site.file 'default_partition'
    site 'return { default_partition = "gpu" }'
    finds error site.partitions '"gpu"'
    site 'return { mpi = "pmix_v9" }'
    finds error mpi.types 'no --mpi=pmix_v9'
    site 'return { named_mounts = { data = { directory = "/nowhere/data" } } }'
    finds error site.directories 'named_mounts.data.directory: /nowhere/data'
    site 'return {}'
    as_root_on login chmod 0666 /etc/batchai/site.lua
    finds error site.file 'can be written to by others'
}

@test "faults of node_directory: not there, a link, not sticky, in memory" {
    as_root_on login sh -c 'mkdir -p /shared/admin/open && chmod 0777 /shared/admin/open &&
        ln -s open /shared/admin/link'
    site 'return { node_directory = "/shared/admin/none" }'
    finds error dir.node 'No such file'
    site 'return { node_directory = "/shared/admin/link" }'
    finds error dir.node 'symbolic link'
    site 'return { node_directory = "/shared/admin/open" }'
    finds error dir.node 'remove what belongs to others'
    site 'return { node_directory = "/dev/shm" }'
    finds warning dir.node-space 'in memory'
}

@test "what a user lacks: programs, a directory for records" {
    # shellcheck disable=SC2016 # for the inner shell
    as_user bash -c 'mkdir -p "$1/bin" && cd "$1/bin" &&
        for name in scontrol sinfo srun munge unmunge; do ln -sf "$(command -v $name)" .; done' \
        link "$HOME_DIR"
    local report
    report=$(batchai_with "PATH=$HOME_DIR/bin" admin check --only tools) || true
    [[ $report == *'warning  tools.image          not on PATH: skopeo, umoci, mksquashfs'* ]]
    [[ $report == *'warning  tools.container      not on PATH: squashfuse_ll'* ]]
    report=$(batchai_with "BATCHAI_HOME=/root/records" admin check --only dir.home) || true
    [[ $report == *'error    dir.home '* ]]
}

@test "a drained node is named, and is not asked" {
    as_root_on login scontrol update NodeName=h4 State=DRAIN Reason='bad disk'
    finds warning slurm.nodes 'h4 (idle+drain: bad disk)'
    finds unknown nodes.answer 'h4: cannot be asked now' --nodes h4
}

@test "nodes that differ: another site.lua, no installation, no home directories" {
    site 'return {}'
    as_root_on login sh -c 'mkdir -p /shared/admin && echo "return { exclusive = false }" > /shared/admin/site.lua'
    as_root_on h2 mount --bind /shared/admin/site.lua /etc/batchai/site.lua
    as_root_on h3 mount -t tmpfs none "$PREFIX/bin"
    as_root_on h4 mount -t tmpfs none /home
    local report
    report=$(check --cluster --only nodes)
    echo "$report"
    grep -E '^error +nodes\.site +h2: another site.lua' <<< "$report"
    grep -E '^error +nodes\.answer +h3: .*not found' <<< "$report"
    grep -E '^error +nodes\.answer +h4: ' <<< "$report"
    grep -E '^ok +nodes\.answer +h1, h2: ' <<< "$report"
}

# fails_on_h3 USER: a job of this user ends because h3 fails a check of the site.
fails_on_h3() {
    local said code=0
    # shellcheck disable=SC2016 # for the inner shell
    said=$("as_$1" bash -c 'mkdir -p ~/admin-check && cd ~/admin-check && export BATCHAI_HOME=$PWD/records
        "$1" job create --name faulty -f /shared/admin/faulty.json --output none || exit 99
        "$1" job wait --name faulty; code=$?
        "$1" job delete --name faulty --yes; exit "$code"' fails "$PREFIX/bin/batchai" 2>&1) || code=$?
    echo "$said"
    [[ $code -ne 0 && $code -ne 99 && $said == *"failed a check of the site"* ]]
}

# report_has REGEX: for wait_until; a line of the report on bad nodes. sacct hears of a job a moment late.
report_has() { check --only nodes.faults | grep -E "$1"; }

# Breaks when nobody hears that a node fails the jobs of several users, or when what a user has written
# into a comment by hand blames a node that the job did not have, or in the name of somebody else.
@test "a node that fails the jobs of several users is named, and a forged comment blames no other" {
    site 'return { note_failed_nodes = true, health = { directory = "/etc/batchai/admin-test.d", retries = 0 } }'
    as_root_on login sh -c 'umask 022; mkdir -p "$1" && cat > "$1/10-disk" && chmod 755 "$1/10-disk"' \
        checks /etc/batchai/admin-test.d << 'SH'
#!/bin/sh
[ "$SLURMD_NODENAME" != h3 ] || { echo "disk sda is dying"; exit 1; }
SH
    as_root_on login sh -c 'umask 022; mkdir -p /shared/admin && cat > /shared/admin/faulty.json' << 'JSON'
{"properties": {"nodeCount": 1, "stdOutErrPathPrefix": "$AZ_BATCHAI_SHARED_JOB_TEMP", "slurm": {"nodelist": "h3"},
    "customToolkitSettings": {"commandLine": "hostname"}}}
JSON
    fails_on_h3 user
    wait_until 60 report_has '^(info|warning) +nodes\.faults +h3: [0-9]+ job'
    fails_on_h3 bob
    wait_until 60 report_has '^warning +nodes\.faults +h3: [0-9]+ jobs of 2 users have found it bad in the last 7 days: failed a check of the site \('
    # As root, who sees the jobs of all users wherever these see only their own.
    run -1 as_root_on login "$PREFIX/bin/batchai" admin check --only nodes.faults
    [[ $output == *"h3: "*" jobs of 2 users"*"remedy: "*"State=DRAIN"* ]]

    local forger
    forger=$(as_bob sbatch --parsable -w h4 -o /dev/null --wrap 'now=$(date +%s); esc=$(printf "\\033")
        scontrol update "jobid=$SLURM_JOB_ID" "comment=batchai-nodes=h1:lost:$now,h4:lost:$now,h2$esc[31m:lost:$now,<b>:lost:$now
1|alice|2020-01-01T00:00:00|Unknown|h2|batchai-nodes=h2:lost:$now"')
    wait_until 60 job_is "$forger" COMPLETED
    wait_until 60 report_has 'nodes\.faults +h4: .* one user.* was lost'
    run check --only nodes.faults
    echo "$output"
    [[ $output != *h1* && $output != *h2* && $output != *'<b>'* ]]
    # Nothing is looked for unless the site wants it.
    site 'return {}'
    run -0 batchai admin check --only nodes.faults
    [[ $output != *h3* ]]
}

one_is_used() { as_user sinfo -h -N -n h1 -p main -o %T | grep -qE '^(mixed|allocated)'; }
check_is_queued() { as_user squeue -h -o %j | grep -q batchai-check; }

@test "an interrupt leaves neither a job nor a directory" {
    # A step cannot start while another has the memory of the node.
    as_user sbatch -w h1 --mem=8160 --wrap 'sleep 600' -o /dev/null
    wait_until 60 one_is_used
    batchai admin check --nodes h1 3>&- &
    wait_until 60 check_is_queued
    as_user pkill -INT -f 'admin check --nodes h1'
    local code=0
    wait $! || code=$?
    [[ $code -ne 0 ]]
    wait_until 60 prints_nothing lines_like batchai-check as_user squeue -h -o %j
    prints_nothing as_user find "$HOME_DIR/records" -mindepth 1
}

@test "nodes that are busy are not waited for" {
    local job
    job=$(as_user sbatch --parsable -N4 --exclusive --wrap 'sleep 600' -o /dev/null)
    wait_until 60 job_is "$job" RUNNING
    finds unknown nodes.answer 'cannot be asked now: it is allocated' --cluster
}

# Breaks when a secret reaches the archive, when a part is missing, or when another file is replaced.
@test "everything about a job in one archive, without its secrets" {
    as_user tee "$HOME_DIR/job.json" > /dev/null << 'JSON'
{"properties": {"nodeCount": 1, "stdOutErrPathPrefix": "$AZ_BATCHAI_SHARED_JOB_TEMP",
    "secrets": [{"name": "MY_KEY", "value": "hunter2hunter2"}],
    "customMpiSettings": {"commandLine": "sh -c 'echo key $MY_KEY >&2; exit 3'"}}}
JSON
    run -0 batchai job create --name train -f job.json
    run -3 batchai job wait --name train
    run -0 batchai admin diag train --file train.tar.gz
    run -4 batchai admin diag train --file train.tar.gz
    run -0 as_user tar -tzf "$HOME_DIR/train.tar.gz"
    local part
    for part in job/plan.json job/attempts/1.json job/slurm.log job-show.json slurm-job.txt \
        slurm-config.txt installation.json admin-check.txt; do
        [[ $output == *"batchai-diag-train/$part"* ]]
    done
    [[ $output != *secrets.json* && $output != *missing.txt* ]]
    run -0 as_user tar -xzOf "$HOME_DIR/train.tar.gz"
    [[ $output == *'key ***'* && $output == *JobState=* && $output != *hunter2* ]]
    [[ $(as_user stat -c %a "$HOME_DIR/train.tar.gz") == 600 ]]
    prints_nothing as_user find "$HOME_DIR/records" -maxdepth 1 -name 'diag-*'
    run -5 batchai admin diag no-such-job
    run -2 as_root_on login "$PREFIX/bin/batchai" admin diag train
    run -0 batchai job delete --name train --yes
}
