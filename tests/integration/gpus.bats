#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# GPUs in jobs: which of them a rank sees, what it is told about them and about the network, through
# each door to Slurm. The suite has a cluster of its own, on which Slurm believes that each host has
# two GPUs.

bats_require_minimum_version 1.5.0
load lib

share=/shared/gpus
# What a rank prints of itself, one line each.
# shellcheck disable=SC2016 # for the rank's shell
look='echo "$SLURMD_NODENAME $SLURM_LOCALID cuda=$CUDA_VISIBLE_DEVICES gpus=$AZ_BATCHAI_NUM_GPUS nccl=$NCCL_SOCKET_IFNAME hca=${NCCL_IB_HCA-unset} dist=$SLURM_DISTRIBUTION"'

setup_file() {
    MINICLUSTER_NAME=${MINICLUSTER_NAME}gpu
    export MINICLUSTER_NAME
    "$MINICLUSTER" up --prefix "$PREFIX" --nodes 2 --gpus 2
    as_root_on login install -d -m 1777 "$share"
    make_home gpus
    as_user bash -c "cat > $share/site.lua" << 'LUA'
return { vm_sizes = { NC2 = { gpus = 2, cpus = 4 }, NAMED = { gpus = 2, cpus = 4 } },
         environment = { NCCL_DEBUG = "WARN" } }
LUA
    as_user bash -c "cat > $share/site-nccl.lua" << 'LUA'
return { vm_sizes = { NC2 = { gpus = 2, cpus = 4 } },
         environment = { NCCL_SOCKET_IFNAME = "ib", NCCL_IB_HCA = "=mlx5_0" } }
LUA
    with_site site batchai cluster create --name pair --vm-size nc2 --target 2 --output none
}

teardown_file() { "$MINICLUSTER" down --keep-logs; }

# with_site NAME CMD…: as a user of that site, with records of the suite's own.
with_site() {
    as_user env "BATCHAI_SITE=$share/$1.lua" "BATCHAI_HOME=$HOME_DIR/records" \
        "PATH=$PREFIX/bin:/usr/bin:/bin" "${@:2}"
}

# job NAME COMMAND PROPERTIES: two nodes and four ranks on the cluster, with more properties.
job() {
    jq -n --arg command "$2" --argjson more "${3:-null}" '{properties: ({nodeCount: 2,
        cluster: {id: "pair"}, stdOutErrPathPrefix: "/shared/gpus/logs",
        customMpiSettings: {processCount: 4, commandLine: $command}} + ($more // {}))}' |
        as_user bash -c "cat > $share/$1.json"
}

# said_through DOOR SITE FILE: what the ranks of the job print.
said_through() {
    local file=$share/$3.json name
    case $1 in
        create)
            name=$3-$2
            with_site "$2" batchai job create --name "$name" --config-file "$file" --output none
            with_site "$2" batchai job wait --name "$name" > /dev/null
            with_site "$2" batchai job file stream --job "$name" --file-name stdout.txt
            ;;
        sbatch)
            with_site "$2" sbatch --wait -o "$share/sbatch.txt" --job-json="$file" \
                --wrap="srun sh -c '$look'" > /dev/null
            as_user cat "$share/sbatch.txt"
            ;;
        run)
            with_site "$2" salloc -Q --job-json="$file" batchai run > /dev/null
            as_user sh -c "cat \$(ls -td $share/logs/*/*/*/*/*/*/*/*/*/stdouterr | head -1)/stdout*"
            ;;
        srun) with_site "$2" srun --job-json="$file" sh -c "$look" ;;
    esac
}

# Breaks when a door binds a rank to one GPU, drops a variable, or has its own idea of one.
@test "each rank sees all GPUs of its node and is told the same through each door" {
    local door host rank want=""
    job plain "$look"
    for host in h1 h2; do
        for rank in 0 1; do
            want+="$host $rank cuda=0,1 gpus=2 nccl==eth0 hca=unset dist=block:block"$'\n'
        done
    done
    for door in create sbatch run srun; do
        run said_through "$door" site plain
        echo "$door: $output"
        [[ $status -eq 0 && $(grep '^h[12] ' <<< "$output" | sort) == "${want%$'\n'}" ]]
    done
}

# Breaks when the log does not say why, or a step without GPUs is told of NCCL.
@test "the execution log says which interface NCCL uses and why; a step without GPUs has none" {
    job told "$look"
    said_through create site told
    for host in h1 h2; do
        run with_site site batchai job file stream --job told-site --file-name "execution-$host.log"
        echo "$output"
        [[ $output == *'NCCL_SOCKET_IFNAME is "=eth0": NCCL uses eth0 (10.77.0.'*') because it leads to the first node of the step'* ]]
    done
    run with_site site srun --gres=none --job-json="$share/told.json" sh -c "$look"
    echo "$output"
    [[ $(grep -c 'cuda= gpus=0 nccl= hca=unset' <<< "$output") -eq 4 ]]
}

# Breaks when ours wins over somebody who knows the network.
@test "NCCL's variables and files of the site, the job and the user are left alone" {
    local own
    job sites "$look"
    run said_through create site-nccl sites
    echo "$output"
    [[ $(grep -c 'nccl=ib hca==mlx5_0' <<< "$output") -eq 4 ]]
    job jobs "$look" '{"environmentVariables": [{"name": "NCCL_SOCKET_IFNAME", "value": "^docker"}]}'
    run said_through srun site jobs
    echo "$output"
    [[ $(grep -c 'nccl=^docker hca=unset' <<< "$output") -eq 4 ]]
    job users "$look"
    run with_site site env NCCL_SOCKET_IFNAME=lo NCCL_IB_HCA=mlx4 srun --job-json="$share/users.json" sh -c "$look"
    echo "$output"
    [[ $(grep -c 'nccl=lo hca=mlx4' <<< "$output") -eq 4 ]]
    own=/home/alice/.nccl.conf
    as_user sh -c "echo NCCL_SOCKET_IFNAME=eth > $own"
    run said_through srun site users
    as_user rm "$own"
    echo "$output"
    [[ $(grep -c 'nccl= hca=unset' <<< "$output") -eq 4 ]]
}

# Breaks when our defaults override what the user has asked Slurm for.
@test "the user's own binding and distribution win" {
    job bound "$look"
    run with_site site srun --gpus-per-task=1 --distribution=cyclic --job-json="$share/bound.json" sh -c "$look"
    echo "$output"
    for host in h1 h2; do
        for rank in 0 1; do
            [[ $(grep -c "^$host $rank cuda=$rank gpus=2 .*dist=cyclic" <<< "$output") -eq 1 ]]
        done
    done
    run with_site site batchai job create --name bound --config-file "$share/bound.json" --output none \
        -- --gpus-per-task=1
    echo "$output"
    [[ $status -eq 0 && $output == *"with --gpus-per-task, each rank sees only its own GPUs"* ]]
    with_site site batchai job wait --name bound > /dev/null
    run with_site site batchai job file stream --job bound --file-name stdout.txt
    echo "$output"
    [[ $(grep -cE '^h[12] (0 cuda=0|1 cuda=1) gpus=2 ' <<< "$output") -eq 4 ]]
}

# Breaks when ranks share a GPU and nobody is told.
@test "more ranks than GPUs cause a warning at the number of processes" {
    jq -n '{properties: {nodeCount: 2, cluster: {id: "pair"}, stdOutErrPathPrefix: "/shared/gpus/logs",
        customMpiSettings: {processCount: 6, commandLine: "true"}}}' |
        as_user bash -c "cat > $share/many.json"
    run with_site site batchai job create --name many --config-file "$share/many.json" --dry-run
    echo "$output"
    [[ $status -eq 0 && $output =~ many\.json:[1-9][0-9]*:[1-9][0-9]*:\ warning:\ the\ job\ has\ 6\ processes\ and\ 4\ GPUs.*\[W202\] ]]
}
