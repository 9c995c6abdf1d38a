#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The site's checks of the nodes of a job, before its preparation (docs/health.md).

bats_require_minimum_version 1.5.0
load lib

checks=/etc/batchai/health-test.d # all hosts share it

setup() {
    make_home "health-$BATS_TEST_NUMBER"
    as_root_on login install -d -m 755 "$checks"
    site 'time_limit = 20'
    write_home job.json << JSON
{"properties": {"nodeCount": 1, "stdOutErrPathPrefix": "$HOME_DIR/logs",
  "jobPreparation": {"commandLine": "echo prepared >> $HOME_DIR/prepared"},
  "customToolkitSettings": {"commandLine": "hostname"}}}
JSON
}

teardown() {
    cancel_jobs
    wait_until 60 nothing_is_queued
    as_root_on login rm -rf "$checks"
    remove_home
    no_node_is_drained
}

# site SETTINGS: site.lua with these settings of "health".
site() { write_home site.lua <<< "return { health = { directory = \"$checks\", $1 } }"; }
# check NAME: a program of the site, from standard input.
check() { as_root_on login sh -c 'cat > "$1" && chmod 755 "$1"' check "$checks/$1"; }
batchai() { batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua" "$@"; }
slurm_log() { as_user find "$HOME_DIR/records" -name slurm.log -exec cat {} +; }
attempts() { batchai job show --name job --query "$1" -o tsv; }
slurm_id() { batchai job show --name job --query slurmJobId -o tsv; }

# Breaks when a check runs as root, in the user's environment, or after the preparation; or when what
# is not a failure ends the job.
@test "checks run as the user before the preparation, and only a failure ends the job" {
    check 10-who << SH
#!/bin/sh
[ ! -e $HOME_DIR/prepared ] || exit 1
id -u > $HOME_DIR/who
env > $HOME_DIR/check.env
SH
    check 20-warns <<< $'#!/bin/sh\necho "fan 2 is slow\e[31m"; exit 10'
    check 30-missing <<< $'#!/bin/sh\nno-such-program-here'
    as_root_on login sh -c "echo 'exit 1' > $checks/40-readme; printf '#!/bin/sh\nexit 1' > $checks/.hidden; chmod 755 $checks/.hidden"
    batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua LD_PRELOAD_TEST=mine" job create --name job --config-file job.json --output none
    batchai job wait --name job
    [[ $(as_user cat "$HOME_DIR/who") == 20001 ]]
    run as_user cat "$HOME_DIR/check.env"
    echo "$output"
    [[ $output == *SLURMD_NODENAME=h* && $output != *LD_PRELOAD_TEST* && $output == *PATH=/usr/local/sbin:* ]]
    run slurm_log
    echo "$output"
    [[ $output == *$'health check 20-warns warns: fan 2 is slow\xef\xbf\xbd[31m'* ]]
    [[ $output == *"health check 30-missing could not be run"* ]]
    [[ $output != *40-readme* && $output != *hidden* ]]
    [[ $(attempts 'length(attempts)') == 1 ]]
}

# Breaks when a job without "retry" is not queued again, goes back to the node that failed, or the
# record and the admin are not told which check failed where.
@test "a job leaves a node that fails, and ends well on another" {
    check 10-disk << 'SH'
#!/bin/sh
[ "$SLURMD_NODENAME" != h1 ] || { echo "disk sda is dying"; exit 2; }
SH
    as_root_on h1 sh -c 'command -v python3 > /dev/null && [ ! -e /dev/log ]'
    as_root_on h1 setsid -f python3 -c '
import os, socket
log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
log.bind("/dev/log")
os.chmod("/dev/log", 0o666)
log.settimeout(120)
message = b""
try:
    while b"batchai[" not in message:  # Slurm writes there, too
        message = log.recv(4096)
    open("/shared/health-syslog", "wb").write(message)
finally:
    os.unlink("/dev/log")' < /dev/null > /dev/null 2>&1 3>&- 4>&-
    wait_until 60 as_root_on h1 test -S /dev/log
    create job
    start_again "$(slurm_id)"
    batchai job wait --name job
    run attempts 'attempts[].[attempt, endedBy, retry]'
    echo "$output"
    [[ ${lines[0]} == $'1\thealth\t'* && ${lines[0]} == *"queued again, without the nodes that failed"* ]]
    [[ ${lines[1]} == $'2\tprogram\t'* && ${#lines[@]} -eq 2 ]]
    [[ $(output_of job) != h1 ]]
    [[ $(as_user cat "$HOME_DIR/prepared") == prepared ]]
    run slurm_log
    echo "$output"
    [[ $output == *"h1: health check 10-disk failed: disk sda is dying"*"the job will not run on h1 again"* ]]
    wait_until 60 as_root_on login grep -aq 'batchai\[[0-9]*\]: health check 10-disk failed in job [0-9]*: disk sda is dying' /shared/health-syslog
    as_root_on login rm /shared/health-syslog
}

# Breaks when a job goes on for ever among nodes that all fail, or a check that hangs is waited for.
@test "a job is queued again only as often as the site allows" {
    site 'time_limit = 1, retries = 1'
    check 10-hangs <<< $'#!/bin/sh\ntrap "" TERM\nsleep 1000'
    create job
    start_again "$(slurm_id)"
    run batchai job wait --name job
    echo "$output"
    [[ $status -ne 0 && $output == *"failed a check of the site"* ]]
    [[ $(attempts 'length(attempts)') == 2 ]]
    run attempts 'attempts[1].retry'
    echo "$output"
    [[ $output == *"queued again once because of the health of its nodes"* ]]
    run failure_of job
    echo "$output"
    [[ $output == *HealthCheckFailed* && $output == *"10-hangs: did not end within 1 s"* ]]
    prints_nothing as_user find "$HOME_DIR" -name prepared
    local node
    for node in h1 h2 h3 h4; do
        # What is killed ends a moment later on a busy machine.
        wait_until 60 prints_nothing lines_like '^sleep 1000$' as_root_on "$node" ps -eo args=
    done
}

# Breaks when the page shows a setting or a check that does not work.
@test "the settings and the check of the page do what it says" {
    local scratch=/shared/health-scratch
    write_home site.lua <<< "return { $(block_of health.md lua | sed "s|/etc/batchai/health.d|$checks|") }"
    block_of health.md sh | sed "s|/scratch\([/ ]\)|$scratch\1|g" | check 20-scratch
    as_root_on login install -d -m 1777 "$scratch"
    create job
    batchai job wait --name job
    as_root_on login rm -r "$scratch"
    create bad job.json
    wait_until 60 is_left
    run slurm_log
    echo "$output"
    [[ $output == *"health check 20-scratch failed: $scratch cannot be written to"* ]]
}
is_left() {
    local end
    end=$(batchai job show --name bad --query 'attempts[].[endedBy, retry]' -o tsv) || return
    [[ $end == $'health\t'*"queued again, without the nodes that failed"* ]]
}

# Breaks when a wrong key is not named.
@test "site.lua's health is checked" {
    site 'time_limit = 0'
    run batchai job list
    echo "$output"
    [[ $status -eq 3 && $output == *"health.time_limit"*"at least one second"* ]]
    site 'timelimit = 3'
    run batchai job list
    [[ $status -eq 3 && $output == *timelimit*time_limit* ]]
}

# Breaks when a node is blamed, and the job queued again without it, because Slurm has suspended the job for
# longer than a check may take.
@test "the time in which Slurm suspends a job does not count for its checks" {
    site 'time_limit = 8'
    check 10-waits << SH
#!/bin/sh
touch $HOME_DIR/begun
until [ -e $HOME_DIR/go ]; do sleep 0.1; done
SH
    batchai job create --name job --config-file job.json --output none
    wait_until 60 as_user test -e "$HOME_DIR/begun"
    as_root_on login scontrol suspend "$(slurm_id)"
    local over=$((SECONDS + 10))
    wait_until 60 eval "((SECONDS > $over))"
    as_root_on login scontrol resume "$(slurm_id)"
    as_user touch "$HOME_DIR/go"
    run -0 batchai job wait --name job
    [[ $(attempts 'length(attempts)') == 1 ]]
}
