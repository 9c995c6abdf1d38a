#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# What `batchai run` does in an allocation of four hosts: preparation, wire-up, ranks, their files,
# their variables, their failures and their end.

bats_require_minimum_version 1.5.0
load lib

site_file=/etc/batchai/site.lua

# One job serves the tests that only look at what it left behind.
setup_file() {
    make_home job
    good_job | write_home good.json
    create good
    batchai job wait --name good
}

teardown_file() { remove_home; }

teardown() {
    reset_site
    cancel_jobs
}

# job TOOLKIT COMMAND [NODES [PREPARATION]]: a job file with logs and output SEEN on shared storage.
job() {
    jq -n --arg toolkit "$1" --arg command "$2" --argjson nodes "${3:-4}" --arg prepare "${4:-}" '
        {properties: ({
            nodeCount: $nodes,
            stdOutErrPathPrefix: "$AZ_BATCHAI_JOB_MOUNT_ROOT/share",
            mountVolumes: {azureFileShares: [{
                azureFileUrl: "https://site.file.core.windows.net/share",
                relativeMountPath: "share"}]},
            inputDirectories: [{id: "DATA", path: "$AZ_BATCHAI_JOB_MOUNT_ROOT/share/data"}],
            outputDirectories: [{id: "SEEN", pathPrefix: "$AZ_BATCHAI_JOB_MOUNT_ROOT/share",
                                 pathSuffix: "seen"}],
            environmentVariables: [{name: "COLOUR", value: "blue of $AZ_BATCHAI_JOB_NAME"}],
            ($toolkit): {commandLine: $command}}
          + if $prepare == "" then {} else {jobPreparation: {commandLine: $prepare}} end)}'
}

# The variables by which a rank finds the others, in order, and the others that batchai sets.
rank_variables="env | grep -E '^((LOCAL_|GROUP_)?(RANK|WORLD_SIZE)|MASTER_(ADDR|PORT)|TORCHELASTIC_.*"
rank_variables+="|JAX_.*|AZ_BATCHAI_(TASK_INDEX|PYTORCH_INIT_METHOD))=' | LC_ALL=C sort"
job_variables="env | grep -E '^(AZ_BATCH|COLOUR=)' | grep -vE '^AZ_BATCHAI_(TASK_INDEX|PYTORCH_.*)=' | sort"

good_job() {
    local note='date +%s%N > $AZ_BATCHAI_OUTPUT_SEEN'
    job customMpiSettings "$note/started-\$SLURM_PROCID
        $job_variables > \$AZ_BATCHAI_OUTPUT_SEEN/rank-\$SLURM_PROCID
        $rank_variables > \$AZ_BATCHAI_OUTPUT_SEEN/ranks-\$SLURM_PROCID
        echo rank \$SLURM_PROCID of \$SLURM_NTASKS on \$SLURMD_NODENAME
        echo complaint of rank \$SLURM_PROCID >&2" \
        4 "$job_variables > \$AZ_BATCHAI_OUTPUT_SEEN/node-\$SLURMD_NODENAME
        $rank_variables > \$AZ_BATCHAI_OUTPUT_SEEN/ranks-prepared-\$SLURMD_NODENAME
        echo prepared \$SLURMD_NODENAME; sleep 1; $note/prepared-\$SLURMD_NODENAME-\$\$" |
        jq '.properties.customMpiSettings.processCount = 8'
}

# logs_of JOB, seen_by JOB: directories, as the login host sees them.
directory_of() {
    as_user find "$HOME_DIR/records/storage" -type d -path "*/jobs/$1/*/$2" | grep .
}
logs_of() { directory_of "$1" stdouterr; }
seen_by() { directory_of "$1" outputs/seen; }

# Breaks when a file is misnamed, missing or superfluous: users' scripts look for these names.
@test "a job on four nodes leaves exactly Batch AI's files, and the ranks'" {
    run as_user ls "$(logs_of good)"
    local expected=()
    for host in h1 h2 h3 h4; do expected+=("execution-$host.log"); done
    for stream in stderr stdout; do
        for host in h1 h2 h3 h4; do expected+=("$stream-job_prep-$host.txt"); done
    done
    expected+=(ranks stderr.txt stdout.txt)
    [[ $(sort <<< "$output") == "$(printf '%s\n' "${expected[@]}" | sort)" ]]
}

# Breaks when ranks share nodes unevenly, a rank's output is lost, or streams are mixed up.
@test "eight processes on four nodes are two ranks a node, in order" {
    run as_user bash -c "sort '$(logs_of good)/stdout.txt'"
    local every="" rank
    for rank in {0..7}; do every+="rank $rank of 8 on h$((rank / 2 + 1))"$'\n'; done
    [[ $output == "${every%$'\n'}" ]]
    run as_user grep -c '^complaint of rank [0-7]$' "$(logs_of good)/stderr.txt"
    [[ $output == 8 ]]
}

# Breaks when a variable is missing on some rank, or has another value there.
@test "every rank on every node has all variables of Batch AI" {
    local seen own name node rank hosts first
    hosts=$(for node in h1 h2 h3 h4; do address_of "$node"; done | paste -sd ,)
    first=${hosts%%,*}
    seen=$(seen_by good)
    for name in AZ_BATCHAI_{MOUNT_ROOT,JOB_MOUNT_ROOT,JOB_TEMP,JOB_TEMP_DIR,SHARED_JOB_TEMP} \
        AZ_BATCHAI_{STDOUTERR_DIR,MPI_HOST_FILE,INPUT_DATA,OUTPUT_SEEN,JOB_NAME}; do
        run as_user bash -c "grep -lE '^$name=/|^$name=good$' '$seen'/rank-*"
        lines_are 8 "$output"
    done
    run as_user bash -c "sed -s -e '/^AZ_BATCH_NODE_ID=/d' -e 's|/tmp/batchai-20001-h[0-9]/|/tmp/batchai-20001/|' '$seen'/rank-* | sort | uniq -c"
    # Each line eight times: all ranks agree about everything but their node, and its directory if its host has
    # several.
    prints_nothing lines_unlike '^ +8 ' echo "$output"
    for rank in {0..7}; do
        own=$(as_user cat "$seen/rank-$rank")
        [[ $own == *"AZ_BATCH_NODE_ID=h$((rank / 2 + 1))"* ]]
        [[ $own == *"AZ_BATCHAI_NUM_GPUS=0"* && $own == *"COLOUR=blue of good"* ]]
        [[ $own == *"AZ_BATCH_HOST_LIST=$hosts"$'\n'* ]]
        [[ $own =~ AZ_BATCH_MASTER_NODE="$first":[0-9]+ ]]
        [[ $own =~ AZ_BATCHAI_OUTPUT_SEEN=/tmp/[^[:space:]]*/mounts/share/[^[:space:]]*/outputs/seen ]]
    done
}

# Breaks when a script of a framework finds another number or place to meet than it has.
@test "every rank has the variables of the frameworks, and the preparation has none" {
    local seen rank port run_id expected
    seen=$(seen_by good)
    port=$(as_user sed -n 's/^MASTER_PORT=//p' "$seen/ranks-0")
    [[ $port =~ ^[0-9]+$ ]]
    run_id=$(as_user sed -n 's/^TORCHELASTIC_RUN_ID=//p' "$seen/ranks-0")
    [[ $run_id =~ ^[0-9]+\.[0-9]+$ ]]
    for rank in {0..7}; do
        expected="AZ_BATCHAI_PYTORCH_INIT_METHOD=tcp://10.77.0.1:$port|"
        expected+="AZ_BATCHAI_TASK_INDEX=$rank|GROUP_RANK=$((rank / 2))|GROUP_WORLD_SIZE=4|"
        expected+="JAX_COORDINATOR_ADDRESS=10.77.0.1:$port|"
        expected+="LOCAL_RANK=$((rank % 2))|LOCAL_WORLD_SIZE=2|MASTER_ADDR=10.77.0.1|"
        expected+="MASTER_PORT=$port|RANK=$rank|TORCHELASTIC_MAX_RESTARTS=0|"
        expected+="TORCHELASTIC_RESTART_COUNT=0|TORCHELASTIC_RUN_ID=$run_id|WORLD_SIZE=8|"
        run as_user cat "$seen/ranks-$rank"
        echo "$output"
        [[ $(tr '\n' '|' <<< "$output") == "$expected" ]]
    done
    [[ $(as_user cat "$seen/ranks-prepared-h1") == "" ]]
}

# Breaks when the preparation gets another environment than the ranks.
@test "the preparation has the variables of the ranks" {
    local seen
    seen=$(seen_by good)
    for rank in 0 2 4 6; do
        as_user diff "$seen/node-h$((rank / 2 + 1))" "$seen/rank-$rank"
    done
}

# Breaks when preparation runs per rank, skips a node, or does not hold the ranks back.
@test "preparation ran once on each node and before any rank" {
    local seen last_prepared first_started
    seen=$(seen_by good)
    run as_user bash -c "cd '$seen'; ls prepared-* | sed 's/-[0-9]*$//'"
    [[ $output == $'prepared-h1\nprepared-h2\nprepared-h3\nprepared-h4' ]]
    for host in h1 h2 h3 h4; do
        run as_user cat "$(logs_of good)/stdout-job_prep-$host.txt"
        [[ $output == "prepared $host" ]]
    done
    last_prepared=$(as_user bash -c "sort -n '$seen'/prepared-* | tail -n 1")
    first_started=$(as_user bash -c "sort -n '$seen'/started-* | head -n 1")
    ((last_prepared < first_started))
}

# Breaks when the survivors are waited for, or the blame falls on one of them.
@test "a rank that is killed ends the job within seconds and is named with its signal" {
    job customMpiSettings 'if [ $SLURM_PROCID = 2 ]; then
        date +%s > $AZ_BATCHAI_OUTPUT_SEEN/killed; kill -9 $$; fi; sleep 300' | write_home killed.json
    create killed
    run -137 batchai job wait --name killed
    local now killed
    now=$(date +%s)
    killed=$(as_user cat "$(seen_by killed)/killed")
    # Those that wait for the survivors take five minutes.
    ((now - killed < 100))
    run failure_of killed
    jq -e '.code == "JobFailed" and .Node == "h3" and .Rank == "2" and .Signal == "9"
           and .exitCode == 137' <<< "$output"
}

# Breaks when the victims' noise hides the first failure, or the code is replaced by srun's.
@test "a rank that fails with a traceback is named with its code and the exception" {
    job customMpiSettings 'python3 -c "
import os, sys, time
if os.environ[\"SLURM_PROCID\"] != \"1\":
    time.sleep(300)
try:
    {}[\"learning_rate\"]
except KeyError:
    import traceback
    traceback.print_exc()
    sys.exit(7)
"' | write_home traceback.json
    create traceback
    run -7 batchai job wait --name traceback
    run failure_of traceback
    jq -e '.code == "JobFailed" and .exitCode == 7 and .Node == "h2" and .Rank == "1"
           and .FirstErrorLine == "KeyError: '"'learning_rate'"'"' <<< "$output"
}

# Breaks when a rank that the library's abort killed is blamed in place of the one that raised.
@test "an exception in a training script is told with its rank although all ranks are killed" {
    job customMpiSettings "PYTHONPATH=$PREFIX/lib/batchai/python exec $PYTHON -c '
import mpi_bridge
mpi_bridge.init()
mpi_bridge.barrier()
if mpi_bridge.rank() == 3:
    raise ValueError(\"the images have no labels\")
mpi_bridge.barrier()
'" | write_home raised.json
    create raised
    run batchai job wait --name raised
    [[ $status -ne 0 && $status -ne 255 ]]
    run failure_of raised
    echo "$output"
    jq -e '.code == "JobFailed" and .Node == "h4" and .Rank == "3" and .Signal == null
           and .FirstErrorLine == "ValueError: the images have no labels"' <<< "$output"
}

# Breaks when ranks start although a node is not ready, or the wrong node is blamed.
@test "a preparation that fails on one node fails the job before any rank" {
    job customMpiSettings 'touch $AZ_BATCHAI_OUTPUT_SEEN/ran' 4 \
        'if [ $SLURMD_NODENAME = h3 ]; then echo no disk >&2; exit 5; fi' | write_home unready.json
    create unready
    run -5 batchai job wait --name unready
    run failure_of unready
    jq -e '.code == "JobPreparationFailed" and .exitCode == 5 and .Node == "h3"
           and .FirstErrorLine == "no disk"' <<< "$output"
    prints_nothing as_user ls "$(seen_by unready)"
    run as_user ls "$(logs_of unready)"
    [[ $status -eq 0 && $output != *stdout.txt* ]]
}

# Breaks when four singletons, each believing it is alone, train four models.
@test "ranks that PMIx does not wire are refused before they run" {
    as_root_on login sh -c "echo 'return {mpi = \"none\"}' > $site_file"
    job customMpiSettings 'touch $AZ_BATCHAI_OUTPUT_SEEN/ran' | write_home alone.json
    create alone
    run -1 batchai job wait --name alone
    run failure_of alone
    jq -e '.code == "WireUpFailed" and .Phase == "wire-up" and .exitCode == 1' <<< "$output"
    run as_user cat "$(logs_of alone)/stderr.txt"
    [[ $output == *"--mpi=pmix"* ]]
    prints_nothing as_user ls "$(seen_by alone)"
}

# Breaks when a rank, an anchor or the sandbox's directory outlives the job on some node.
@test "terminating a running job leaves nothing of it on the nodes" {
    job customMpiSettings 'trap "" TERM; touch $AZ_BATCHAI_OUTPUT_SEEN/$SLURM_PROCID
        sleep 300 & wait; sleep 300' | write_home endless.json
    create endless
    all_ranks_run() { lines_are 4 "$(as_user ls "$(seen_by endless)")" 2> /dev/null; }
    wait_until 60 all_ranks_run
    [[ -n $(processes_of_user_on h1) && -n $(job_directories_on h1) ]]
    batchai job terminate --name endless --yes
    run failure_of endless
    jq -e '.code == "JobTerminated" and .exitCode == null' <<< "$output"
    wait_until 60 nothing_is_queued
    wait_until 60 nodes_are_clean h1 h2 h3 h4
}

# Breaks when the command runs on every node, or the user's launcher does not find the hosts.
@test "a custom toolkit's command runs once on the master and can start tasks on all hosts" {
    job customToolkitSettings 'echo master is $SLURMD_NODENAME; cat $AZ_BATCHAI_MPI_HOST_FILE
        srun --overlap --ntasks-per-node=1 -N4 -n4 printenv SLURMD_NODENAME' | write_home custom.json
    create custom
    batchai job wait --name custom
    run as_user cat "$(logs_of custom)/stdout.txt"
    lines_are 9 "$output"
    [[ ${lines[0]} == "master is h1" ]]
    for number in 1 2 3 4; do
        [[ ${lines[number]} == "$(address_of "h$number") slots=1 max_slots=1" ]]
        [[ $output == *$'\n'"h$number"* ]]
    done
}

# Breaks when a directory on the node is made before the epilog is told of it.
@test "logs on the node's own storage go with a job that never comes to a step" {
    as_user bash -c "mkdir -p '$HOME_DIR/records/storage/site/file-shares' &&
        touch '$HOME_DIR/records/storage/site/file-shares/blocked'"
    job customToolkitSettings true 1 |
        jq '.properties.stdOutErrPathPrefix = "$AZ_BATCHAI_JOB_TEMP"
            | .properties.mountVolumes.azureFileShares[0].azureFileUrl |= sub("share$"; "blocked")' |
        write_home nowhere.json
    create nowhere
    run ! batchai job wait --name nowhere
    echo "$output"
    run batchai job show --name nowhere --query executionInfo.errors
    echo "$output"
    [[ $output == *blocked* ]]
    wait_until 60 nodes_are_clean h1 h2 h3 h4
}

# Breaks when the epilog only knows of a job once a step has started on the node.
@test "logs on the node's own storage go with a job that is cancelled before its first step" {
    local door id
    job customToolkitSettings true 1 | jq '.properties.stdOutErrPathPrefix = "$AZ_BATCHAI_JOB_TEMP"' |
        write_home early.json
    # Its steps never start.
    as_user bash -c "mkdir -p $HOME_DIR/bin && printf '#!/bin/sh\nexec sleep 600\n' > $HOME_DIR/bin/srun &&
        chmod +x $HOME_DIR/bin/srun && printf '#!/bin/bash\nbatchai run\n' > $HOME_DIR/early.sh"
    has_directory() { [[ -n $(job_directories_on h1) ]]; }
    for door in 'batchai job create --name early -f early.json --query slurmJobId -o tsv -- -w h1' \
        'sbatch --parsable --output=/dev/null -w h1 --job-json=early.json early.sh'; do
        id=$(as_user bash -c "cd $HOME_DIR; BATCHAI_HOME=$HOME_DIR/records \
            PATH=$HOME_DIR/bin:$PREFIX/bin:\$PATH $door")
        wait_until 60 has_directory
        as_user scancel "$id"
        wait_until 60 nothing_is_queued
        wait_until 60 nodes_are_clean h1
    done
}

# Breaks when a host on which no epilog runs keeps them for ever.
@test "logs on the storage of a login host go with the run inside salloc" {
    job customToolkitSettings 'echo ran' 1 |
        jq '.properties.stdOutErrPathPrefix = "$AZ_BATCHAI_JOB_TEMP"' | write_home allocated.json
    run as_user bash -c "cd $HOME_DIR; BATCHAI_HOME=$HOME_DIR/records PATH=$PREFIX/bin:\$PATH \
        salloc -w h1 --job-json=allocated.json batchai run"
    echo "$output"
    [[ $status -eq 0 && $output == *"output in /tmp/batchai-"* ]]
    prints_nothing job_directories_on login
    wait_until 60 nodes_are_clean h1
}

# Breaks when the plan does not reach a script of the user's own.
@test "a script submitted with --job-json can call batchai run" {
    job horovodSettings '' | jq 'del(.properties.horovodSettings.commandLine)
        | .properties.horovodSettings.pythonScriptFilePath = "$AZ_BATCHAI_JOB_MOUNT_ROOT/share/who.py"' |
        write_home own.json
    as_user bash -c "cat > '$HOME_DIR/records/storage/site/file-shares/share/who.py'" << 'PYTHON'
import os

print("python on", os.environ["SLURMD_NODENAME"], "rank", os.environ.get("PMIX_RANK") or os.environ["PMI_RANK"])
PYTHON
    as_user bash -c "printf '#!/bin/bash\necho before\nbatchai run\necho after: \$?\n' > $HOME_DIR/own.sh"
    run as_user bash -c "cd $HOME_DIR; BATCHAI_HOME=$HOME_DIR/records PATH=$PREFIX/bin:\$PATH \
        sbatch --wait --output=own.txt --job-json=own.json own.sh"
    echo "$output"
    [[ $status -eq 0 ]]
    run as_user cat "$HOME_DIR/own.txt"
    echo "$output"
    [[ $output == before*"4 ranks start"*"after: 0" ]]
    run as_user bash -c "cat \$(find $HOME_DIR/records/storage -name stdout.txt -newer $HOME_DIR/own.sh) | sort"
    [[ $output == $'python on h1 rank 0\npython on h2 rank 1\npython on h3 rank 2\npython on h4 rank 3' ]]
}
