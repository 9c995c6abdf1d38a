#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Cores, memory and devices that Slurm limits by control groups: what a rank gets, and what is said when
# it takes more. The suite has a cluster of its own. Its nodes have as many CPUs as the machine, at most 4.

bats_require_minimum_version 1.5.0
load lib
load small_image

share=/shared/control-groups
# What a rank may use: CPUs and GPUs. The kernel knows no driver of these GPUs, which it says only to
# those who may open them.
# shellcheck disable=SC2016 # for the rank's shell
look='mine=$(grep Cpus_allowed_list /proc/self/status)
    for gpu in 0 1; do (: < /run/minicluster/gpu$gpu) 2>&1 | grep -o "[^:]*$" | while read -r why; do echo "gpu$gpu: $why"; done; done
    echo "rank $SLURM_PROCID $mine cuda=$CUDA_VISIBLE_DEVICES"'
refused="Operation not permitted"
allowed="No such device or address"

setup_file() {
    # The kernel limits memory by one of the two versions.
    local version=2
    [[ ! -e /sys/fs/cgroup/memory/cgroup.procs ]] || version=1
    own_cluster cg --nodes 2 --gpus 2 --with "cgroup$version,affinity"
    as_root_on login install -d -m 1777 "$share"
    make_root "$BATS_FILE_TMPDIR/root"
    pack "$BATS_FILE_TMPDIR/root" "$share/image.sqsh"
    site_lua << 'LUA' | as_user bash -c "cat > $share/site.lua"
return { vm_sizes = { HALF = { gpus = 1, cpus = 1 } }, exclusive = false,
         container_binds = { "/run/minicluster" },
         environment = { BATCHAI_GPU_CHECK = "0" } }
LUA
    make_home control-groups
    batchai cluster create --name halves --vm-size half --target 2 --output none
}

teardown_file() { "$MINICLUSTER" down --keep-logs; }

teardown() { end_jobs; }

batchai() {
    as_user env "BATCHAI_SITE=$share/site.lua" "BATCHAI_HOME=$HOME_DIR/records" "PATH=$PREFIX/bin:/usr/bin:/bin" \
        batchai "$@"
}

# job NAME COMMAND [PROPERTIES]: one rank on half a node, unless the properties have another toolkit.
job() {
    jq -n --arg command "$2" --argjson more "${3:-null}" '{properties: ({nodeCount: 1,
        cluster: {id: "halves"}, stdOutErrPathPrefix: "/shared/control-groups/logs",
        customMpiSettings: {processCount: 1, commandLine: $command}} + ($more // {})
        | if .customToolkitSettings then del(.customMpiSettings) else . end)}' |
        as_user bash -c "cat > $share/$1.json"
    batchai job create --name "$1" --config-file "$share/$1.json" --output none
}

# said NAME: what its ranks print, once it has ended.
said() {
    batchai job wait --name "$1" > /dev/null
    batchai job logs "$1"
}

printed() { batchai job logs "$1" | grep -q "^rank 0 "; }

# one_of_each TEXT: it shows one CPU and one GPU, the other of which is refused.
one_of_each() {
    echo "$1"
    [[ $(grep -c "gpu[01]: $refused" <<< "$1") -eq 1 && $(grep -c "gpu[01]: $allowed" <<< "$1") -eq 1 &&
        $1 =~ Cpus_allowed_list:[[:space:]]*[0-9]+\  ]]
}

# Breaks when a rank is started outside the control groups of its step.
@test "a rank has the cores and the GPUs that Slurm gave it" {
    job bare "$look"
    one_of_each "$(said bare)"
}

# Breaks when the processes that make a container, or those that enter it, are outside them.
@test "so has a rank in a container, and what enters it" {
    # The image lacks what ranks need to be wired together.
    job boxed '' "$(jq -n --arg command "$look; sleep 300" '{customToolkitSettings: {commandLine: $command},
        containerSettings: {imageSourceRegistry: {image: "/shared/control-groups/image.sqsh"}}}')"
    wait_until 60 printed boxed
    one_of_each "$(batchai job logs boxed)"
    run batchai job node exec --job boxed --exec "$look"
    echo "$output"
    one_of_each "$output"
    batchai job terminate --name boxed --yes
}

# Breaks when what Slurm says of a step that the kernel ends for its memory is not understood.
@test "a rank that takes more memory than its step has is named" {
    job greedy "exec python3 -c 'import time; time.sleep(3); taken = bytearray(500 << 20)'" \
        '{"slurm": {"mem": "200M"}}'
    run -137 batchai job wait --name greedy
    echo "$output"
    run batchai job show --name greedy --output json
    jq .executionInfo.errors <<< "$output"
    jq -e '.executionInfo.errors[0] | .code == "JobOutOfMemory"
        and ([.details[] | {(.name): .value}] | add | .EndedBy == "memory" and .Rank == "0")' <<< "$output"
    # The memory was free again at the last sample, but the kernel knows that it was used up.
    jq .usage <<< "$output"
    jq -e '.usage | .memoryPeakBytes == (200 * 1048576) and .memoryPeakNode == "h1"' <<< "$output"
}
