#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Control groups of version 2, where Slurm kills what is in the group of a step when the step ends: what a
# job's steps share must outlive them, and nothing may be left when the job has ended. The suite has a
# cluster of its own.

bats_require_minimum_version 1.5.0
load lib
load small_image

share=/shared/control-groups-2

setup_file() {
    own_cluster cg2 --nodes 1 --with cgroup2
    as_root_on login install -d -m 1777 "$share"
    make_root "$BATS_FILE_TMPDIR/root"
    pack "$BATS_FILE_TMPDIR/root" "$share/image.sqsh"
    as_user bash -c "cat > $share/job.json" << JSON
{"properties": {"nodeCount": 1, "stdOutErrPathPrefix": "$share/logs",
    "containerSettings": {"imageSourceRegistry": {"image": "$share/image.sqsh"}},
    "customToolkitSettings": {"commandLine": "true"}}}
JSON
}

teardown_file() { "$MINICLUSTER" down --keep-logs; }

teardown() { end_jobs; }

# groups_of_jobs: the directories in which Slurm keeps the jobs of the node.
# Slurm 26.05 takes the job's SLUID in the place of its number.
groups_of_jobs() { as_root_on h1 find /sys/fs/cgroup -type d -regex ".*slurmstepd\.scope/$job_group"; }
job_group='\(job_[0-9]+\|s[0-9A-Z]+\)'

# notes: what root has noted of jobs there.
notes() { as_root_on h1 ls /run/batchai; }

group_is_all_that_is_noted() { [[ $(notes) == *.group ]]; }

# group_of_squashfuse: the control group of what shows the image's files.
group_of_squashfuse() {
    # shellcheck disable=SC2016 # for the shell there
    as_root_on h1 bash -c 'grep ^0:: "/proc/$(pgrep -o squashfuse)/cgroup"'
}

# Breaks when the processes that hold a container are in the group of the step that came first: the others
# then get "Bus error" or "Transport endpoint is not connected".
@test "a step that ends leaves the container to the others" {
    as_user bash -c "cat > $share/steps.sh" << SCRIPT
on() { until [ -e $share/\$1 ]; do sleep 0.1; done; }
export -f on
srun --overlap -n1 bash -c 'touch /usr/of-first $share/first; on second' &
first_step=\$!
on first
srun --overlap -n1 bash -c 'touch $share/second; on third; ls /usr/of-first && cat /etc/made-for' &
second_step=\$!
wait \$first_step
touch $share/shared
on looked
touch $share/third
wait \$second_step
SCRIPT
    # The directory from which a step is started is there in the container.
    "$MINICLUSTER" exec --cwd "$share" -- salloc --job-json="$share/job.json" bash "$share/steps.sh" \
        > "$BATS_TEST_TMPDIR/steps" 2>&1 3>&- &
    wait_until 60 as_user test -e "$share/shared"
    local group
    group=$(group_of_squashfuse)
    as_user touch "$share/looked"
    wait "$!" || { cat "$BATS_TEST_TMPDIR/steps"; false; }
    grep "made for the test" "$BATS_TEST_TMPDIR/steps"
    echo "$group"
    # Where the limits of the job apply.
    [[ $group =~ /(job_[0-9]+|s[0-9A-Z]+)/batchai$ ]]
    wait_until_clean h1
    wait_until 60 prints_nothing groups_of_jobs
}

# Breaks when the group of the helpers stays behind, and with it that of the job.
@test "neither a failing step nor the end of a whole job leaves groups" {
    run as_user salloc --job-json="$share/job.json" bash -c "srun -n1 bash -c 'echo ran; exit 3'; srun -n1 bash -c 'exit 0'"
    echo "$output"
    [[ $status -eq 0 && $output == *ran* ]]
    wait_until 60 prints_nothing groups_of_jobs
    run as_user salloc --job-json="$share/job.json" bash -c 'srun -n1 bash -c "echo ran; sleep 600" | while read -r line; do
        echo "$line"; scancel "$SLURM_JOB_ID"; done'
    echo "$output"
    [[ $output == *ran* ]]
    wait_until_clean h1
    wait_until 60 prints_nothing groups_of_jobs
    wait_until 60 prints_nothing notes
}

# Breaks when nobody comes back for a group in which something outlasts the job, as a long upload does, or
# when a process that a user keeps from ending goes on with the job's GPUs for ever.
@test "what outlasts the job has a day, and its group goes with it" {
    "$MINICLUSTER" exec --cwd "$share" -- salloc --job-json="$share/job.json" srun -n1 \
        bash -c "touch $share/asked; until [ -e $share/answered ]; do sleep 0.1; done" > /dev/null 2>&1 3>&- &
    wait_until 60 as_user test -e "$share/asked"
    # shellcheck disable=SC2016 # for the shell there
    as_root_on h1 bash -c 'setsid sleep 600 < /dev/null > /dev/null 2>&1 &
        echo "$!" > "/sys/fs/cgroup$(sed -n s/^0:://p "/proc/$(pgrep -o squashfuse)/cgroup")/cgroup.procs"'
    as_user touch "$share/answered"
    wait "$!"
    # After the epilog the job has no note any more, but its group has.
    wait_until 60 group_is_all_that_is_noted
    as_user salloc --job-json="$share/job.json" srun -n1 bash -c 'exit 0'
    groups_of_jobs | grep .
    as_root_on h1 sh -c 'touch -d "2 days ago" /run/batchai/*.group'
    as_user salloc srun -n1 true
    wait_until 60 prints_nothing lines_like '[s]leep 600' as_root_on h1 ps -eo args=
    as_user salloc srun -n1 true
    wait_until 60 prints_nothing groups_of_jobs
    wait_until 60 prints_nothing notes
}
