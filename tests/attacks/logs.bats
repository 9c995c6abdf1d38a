#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Attacks on a job's logs and output directories below a directory to which everybody can write: bob
# makes what alice's job is about to make there. Each must fail, and alice's own files must stay as they were.

bats_require_minimum_version 1.5.0
load ../integration/lib

share=/shared/attacks-logs
home=/home/alice/attacks-logs

setup() {
    wait_until 60 nodes_idle 4
    as_root_on login install -d -m 1777 "$share"
    as_user bash -c "rm -rf $home && mkdir -p $home/private && echo mine > $home/notes
        cat > $home/job.json" << JSON
{"properties": {"nodeCount": 1, "stdOutErrPathPrefix": "$share",
                "customToolkitSettings": {"commandLine": "echo out; echo error >&2"}}}
JSON
}

teardown() {
    as_root_on login bash -c 'squeue -h -o %i | xargs -r scancel'
    as_root_on login rm -rf "$share" "$home"
    wait_until 60 nodes_idle 4
}

batchai() { as_user env "BATCHAI_HOME=$home/records" "$PREFIX/bin/batchai" "$@"; }
create() { batchai job create --name job --config-file "$home/job.json" --output none; }

# where_of_job: the directory of its logs, which bob can foretell once the job is queued.
where_of_job() {
    echo "$share/$(batchai job show --name job --query jobOutputDirectoryPathSegment --output tsv)/stdouterr"
}

# alices_files_are_untouched: nothing was appended to her notes or made in her directory.
alices_files_are_untouched() {
    [[ $(as_user cat "$home/notes") == mine ]] || return 1
    local found
    found=$(as_user find "$home/private" -mindepth 1) || return 1
    [[ -z $found ]]
}

# the_job_failed_with TEXT: and says so, instead of writing elsewhere.
the_job_failed_with() {
    run batchai job wait --name job
    echo "$output"
    [[ $status -ne 0 && $output == *"$1"* ]]
}

# Shows that the others fail for the reason that they name.
@test "without bob the job's logs are below the prefix" {
    create
    batchai job wait --name job
    run as_user cat "$(where_of_job)/stdout.txt"
    [[ $output == out ]]
}

@test "bob cannot lead alice's logs through a link above them" {
    as_bob ln -s "$home/private" "$share/00000000-0000-0000-0000-000000000000"
    create
    the_job_failed_with "is a symbolic link in a directory to which others can write"
    alices_files_are_untouched
}

@test "bob cannot have alice append to her own file through a link in a directory of his" {
    as_user chmod 755 /home/alice "$home"
    as_bob sbatch --quiet --nodes=4 --exclusive --output=/dev/null --wrap 'sleep 300'
    wait_until 60 nodes_idle 0
    create
    local logs
    logs=$(where_of_job)
    as_bob bash -c "umask 0; mkdir -p '$logs' && cd '$logs' &&
        for name in stdout.txt stderr.txt execution.log; do ln -s '$home/notes' \$name; done"
    as_bob scancel --user=bob
    the_job_failed_with "belongs to user"
    alices_files_are_untouched
}

@test "bob cannot choose by a link where alice's output directory is" {
    as_bob ln -s "$home/private" "$share/out"
    as_user bash -c "cat > $home/job.json" << JSON
{"properties": {"nodeCount": 1, "stdOutErrPathPrefix": "$home",
                "outputDirectories": [{"id": "MODEL", "pathPrefix": "$share/out", "createNew": true}],
                "customToolkitSettings": {"commandLine": "true"}}}
JSON
    create
    the_job_failed_with "is a symbolic link in a directory to which others can write"
    alices_files_are_untouched
    # The door has no attempt that could fail: its tasks find no directory.
    run as_user srun --job-json="$home/job.json" bash -c 'echo "$AZ_BATCHAI_OUTPUT_MODEL"'
    echo "$output"
    [[ $output == *"$share/out"* ]]
    alices_files_are_untouched
}
