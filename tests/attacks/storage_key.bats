#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bob looks for the key of alice's storage account: in the process table, in what Slurm shows and
# keeps, and in what her job's programs are given, whichever way she submits.

bats_require_minimum_version 1.5.0
load ../integration/lib

share=/shared/storage-key
key=c2VjcmV0LW9mLWFsaWNlLWluLWJhc2U2NA==

setup_file() {
    as_root_on login install -d -m 1777 "$share" "$share/logs"
    as_user bash -c "cat > $share/job.json" << 'JSON'
{"properties": {"nodeCount": 1, "stdOutErrPathPrefix": "/shared/storage-key/logs",
  "environmentVariables": [{"name": "TRIED", "value": "$AZURE_BATCHAI_STORAGE_KEY"}],
  "mountVolumes": {"azureFileShares": [{
    "azureFileUrl": "https://<AZURE_BATCHAI_STORAGE_ACCOUNT>.file.core.windows.net/data",
    "credentials": {"accountKey": "<AZURE_BATCHAI_STORAGE_KEY>"}, "relativeMountPath": "data"}]},
  "customMpiSettings": {"processCount": 1, "commandLine": "env; sleep 3"}}}
JSON
    # sbatch waits until the test has looked at its parent.
    as_user bash -c "mkdir -p $share/bin && cat > $share/bin/sbatch && chmod 755 $share/bin/sbatch" << 'SH'
#!/bin/sh
for i in $(seq 1500); do [ ! -e /shared/storage-key/looked ] || break; sleep 0.1; done
exec /usr/bin/sbatch "$@"
SH
}

teardown_file() {
    end_jobs || return
    as_root_on login rm -rf "$share"
}

# with_key CMD…: alice has the key in her environment.
with_key() {
    as_user env "BATCHAI_HOME=$share/records" "PATH=$PREFIX/bin:/usr/bin:/bin" \
        AZURE_BATCHAI_STORAGE_ACCOUNT=site "AZURE_BATCHAI_STORAGE_KEY=$key" "$@"
}

# slurm_has_nothing ID: neither what Slurm says of the job nor the controller's files know the key. Root looks,
# because bob sees nothing of the job where PrivateData hides it.
slurm_has_nothing() {
    local shown
    shown=$(as_root_on login scontrol show job -dd "$1") || return 1
    [[ $shown == *JobId=* && $shown != *"$key"* ]] || return 1
    # The files of the job are there, else the search would prove nothing.
    as_root_on login sh -c "ls /var/lib/slurm/slurmctld/hash.*/job.$1/environment" || return 1
    run as_root_on login grep -rlF "$key" /var/lib/slurm
    [[ $status -eq 1 && -z $output ]]
}

# Breaks when a door's environment goes to Slurm, or to the tasks, with the key in it.
@test "sbatch --job-json leaves the key out of Slurm's files and of the job" {
    local id
    id=$(with_key sbatch --parsable -o "$share/batch.txt" --job-json="$share/job.json" \
        --wrap='env; srun env; batchai run')
    wait_until 60 as_user grep -q '^BATCHAI_SANDBOX=' "$share/batch.txt"
    slurm_has_nothing "$id"
    wait_until 60 job_is "$id" COMPLETED
    run as_user cat "$share/batch.txt"
    [[ $output == *AZ_BATCHAI_JOB_NAME=job* && $output != *"$key"* ]]
    run as_user sh -c "cat $share/logs/*/*/*/*/*/*/*/*/*/stdouterr/stdout.txt"
    [[ $output == *TRIED=* && $output != *"$key"* ]]
}

# Breaks when srun's tasks or salloc's shell inherit it.
@test "srun and salloc leave the key out of the tasks and of the shell" {
    run with_key srun --job-json="$share/job.json" env
    [[ $status -eq 0 && $output == *AZ_BATCHAI_JOB_NAME=job* && $output != *"$key"* ]]
    run with_key salloc --job-json="$share/job.json" sh -c 'env; srun env'
    [[ $status -eq 0 && $output == *BATCHAI_PLAN=* && $output == *AZ_BATCHAI_JOB_NAME=job* ]]
    [[ $output != *"$key"* ]]
}

# Breaks when job create's sbatch inherits the environment that it was started with.
@test "job create leaves the key out of Slurm's files, from the environment and the option" {
    local id
    id=$(with_key batchai job create --name from-variable -f "$share/job.json" --query slurmJobId -o tsv)
    wait_until 60 as_root_on login sh -c "ls /var/lib/slurm/slurmctld/hash.*/job.$id/environment"
    slurm_has_nothing "$id"
    as_user sh -c "umask 077; echo '$key' > $share/key"
    run --separate-stderr as_user env "BATCHAI_HOME=$share/records" "$PREFIX/bin/batchai" job create --name from-file \
        -f "$share/job.json" --storage-account-name site --storage-account-key "@$share/key" \
        --query slurmJobId -o tsv
    echo "$output"
    [[ $status -eq 0 ]]
    wait_until 60 as_root_on login sh -c "ls /var/lib/slurm/slurmctld/hash.*/job.$output/environment"
    slurm_has_nothing "$output"
}

# Breaks when the launcher leaves its argument vector or its first environment as they were.
@test "the process table shows no key while job create waits for sbatch" {
    local processes pid
    as_user env "BATCHAI_HOME=$share/records" "PATH=$share/bin:$PREFIX/bin:/usr/bin:/bin" \
        "AZURE_BATCHAI_STORAGE_KEY=$key" batchai job create --name slow -f "$share/job.json" \
        --storage-account-name site --storage-account-key "$key" --output none &
    # Root, who sees what others see where there is no hidepid.
    wait_until 60 as_root_on login pgrep -u alice -x sbatch
    processes=$(as_root_on login ps axww -o user,args)
    echo "$processes"
    [[ $processes == *"batchai job create --name slow"*"--storage-account-key xxxx"* ]]
    # The command that brought the option here is the test's own.
    [[ $(grep -F "$key" <<< "$processes" | grep -vcE 'minicluster|timeout|env BATCHAI_HOME') -eq 0 ]]
    # Nor does alice's own view of the launcher and of all that it started have it.
    local pids
    pids=$(as_user pgrep -u alice -x 'batchai|sbatch')
    for pid in $pids; do
        run as_user sh -c "tr '\0' '\n' < /proc/$pid/environ"
        [[ $status -eq 0 && $output == *BATCHAI_HOME=* && $output != *"$key"* ]]
    done
    as_user touch "$share/looked"
    wait
}
