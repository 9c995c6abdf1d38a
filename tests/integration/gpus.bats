#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# GPUs in jobs: which of them a rank sees, what it is told about them and about the network, through
# each door to Slurm. The suite has a cluster of its own, on which Slurm believes that each host has
# two GPUs.

bats_require_minimum_version 1.5.0
load lib
load small_image

share=/shared/gpus
# What a rank prints of itself, one line each.
# shellcheck disable=SC2016 # for the rank's shell
look='echo "$SLURMD_NODENAME $SLURM_LOCALID cuda=$CUDA_VISIBLE_DEVICES gpus=$AZ_BATCHAI_NUM_GPUS nccl=$NCCL_SOCKET_IFNAME hca=${NCCL_IB_HCA-unset} dist=$SLURM_DISTRIBUTION"'

setup_file() {
    own_cluster gpu --nodes 2 --gpus 2
    as_root_on login install -d -m 1777 "$share"
    make_home gpus
    # The stand-ins of the driver, which each host has for itself and tells of its own GPUs, and of NCCL.
    for host in h1 h2; do
        as_root_on "$host" install -d -m 755 /run/standin
        as_root_on "$host" sh -c 'cat > /run/standin/libcuda.so.1' < "$STANDIN_CUDA"
        as_root_on "$host" sh -c 'cat > /run/standin/libnccl.so.2' < "$STANDIN_NCCL"
    done
    write_site site ''
    write_site site-nccl ', NCCL_SOCKET_IFNAME = "ib", NCCL_IB_HCA = "=mlx5_0"'
    write_site site-unchecked ', BATCHAI_GPU_CHECK = "0"'
    nccl=/run/standin/libnccl.so.2 write_site site-with-nccl ''
    with_site site batchai cluster create --name pair --vm-size nc2 --target 2 --output none
}

setup() {
    hosts_have h1 "devices=2"
    hosts_have h2 "devices=2"
}

# write_site NAME VARIABLES: a site whose jobs find the driver's stand-in, and as NCCL only $nccl, with
# more variables.
write_site() {
    site_lua << LUA | as_user bash -c "cat > $share/$1.lua"
return { vm_sizes = { NC2 = { gpus = 2, cpus = 4 } },
         container_binds = { "/run/standin:ro" },
         environment = { MPI_BRIDGE_CUDA_LIBRARY = "/run/standin/libcuda.so.1",
                         MPI_BRIDGE_NCCL_LIBRARY = "${nccl:-/nowhere/libnccl.so.2}",
                         BATCHAI_STANDIN = "@/run/standin/plan"$2 } }
LUA
}

# hosts_have HOST PLAN: what the driver of the host says and does (tests/gpu/standin/plan.hpp).
hosts_have() { as_root_on "$1" sh -c 'cat > /run/standin/plan' <<< "$2"; }

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
        run log_of told-site "$host"
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
    run output_of bound
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
    run with_site site srun --job-json="$share/many.json" true
    echo "$output"
    [[ $status -eq 0 && $output =~ many\.json:[1-9][0-9]*:[1-9][0-9]*:\ warning:.*\[W202\] ]]
}

# run_job NAME [WORDS…]: runs the job of $share/plain.json under that name, and waits for its end.
run_job() {
    with_site "${site:-site}" batchai job create --name "$1" --config-file "$share/plain.json" --output none "${@:2}"
    with_site site batchai job wait --name "$1" > /dev/null || true
}

log_of() { output_of "$1" "execution-${2:-h1}.log"; }

# Breaks when the check finds fault with good nodes, or runs after the ranks.
@test "good GPUs are checked before the ranks start" {
    job plain "$look"
    run_job good
    run log_of good
    echo "$output"
    [[ $output == *"the GPUs of 2 of 2 nodes were checked and can be used"*"the job's command starts"* ]]
}

# Breaks when a bad node is not named, or the ranks start nevertheless.
@test "a node whose GPUs cannot be used ends the job, and is named with the reason" {
    job plain "$look"
    hosts_have h2 "devices=1"
    run_job missing
    run failure_of missing
    echo "$output"
    jq -e '.code == "GpuCheckFailed" and .Node == "h2" and .EndedBy == "start" and .Phase == "gpu-check"
        and .message == "The GPUs of a node cannot be used"
        and .FirstErrorLine == "CUDA sees 1 of the 2 GPUs in CUDA_VISIBLE_DEVICES=0,1"' <<< "$output"
    run output_of missing
    [[ $output != *cuda=* ]]
    hosts_have h2 "devices=2 fail=cuMemAlloc_v2:3:2"
    run_job memory
    run failure_of memory
    echo "$output"
    jq -e '.Node == "h2" and (.FirstErrorLine |
        startswith("GPU 1 (PCI 0000:11:00.0): cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY"))' <<< "$output"
}

# Breaks when direct copies that change bytes, or never end, are not told of, or end a job that does
# not need them.
@test "direct copies that go wrong are named, and the job runs" {
    job plain "$look"
    hosts_have h1 "devices=2 garbles=1"
    hosts_have h2 "devices=2 hang=cuMemcpyPeerAsync:2"
    run_job direct
    run log_of direct
    echo "$output"
    [[ $output == *"h1: GPU 0 (PCI 0000:10:00.0) to GPU 1 (PCI 0000:11:00.0): what is copied directly arrives changed; with NCCL_P2P_DISABLE=1, "* ]]
    [[ $output == *"h2: GPU 0 (PCI 0000:10:00.0) to GPU 1 (PCI 0000:11:00.0): the direct copy did not end within 6 s; with NCCL_P2P_DISABLE=1, "* ]]
    [[ $output == *"NCCL was not checked on 2 of 2 nodes; on h1: "*libnccl.so.2* ]]
    [[ $output == *"the GPUs of 2 of 2 nodes were checked and can be used"*"the job's command starts"* ]]
    # Who has NCCL go through the host is not told.
    with_site site env NCCL_P2P_DISABLE=1 batchai job create --name through-host \
        --config-file "$share/plain.json" --output none
    with_site site batchai job wait --name through-host
    run log_of through-host
    [[ $output == *"the GPUs of 2 of 2 nodes were checked and can be used"* && $output != *NCCL_P2P* ]]
    wait_until 60 prints_nothing lines_like mpi_bridge_gpus as_root_on h2 ps -eo args=
}

# Breaks when a node whose GPUs are all slow is compared with itself only.
@test "a node whose GPUs copy slower than those of the others is named" {
    job plain "$look"
    hosts_have h1 "devices=2 far=1"
    run_job far
    run log_of far
    echo "$output"
    [[ $output =~ h1:\ its\ GPUs\ copy\ to\ each\ other\ at\ 0\.[0-9]\ GB/s,\ those\ of\ other\ nodes\ [0-9.]+ ]]
    [[ $output == *"the GPUs of 2 of 2 nodes were checked and can be used"*"the job's command starts"* ]]
}

# Breaks when the check does not use NCCL, or takes its faults for the end of the job.
@test "an allreduce over NCCL that goes wrong or is slow is named, and the job runs" {
    local site=site-with-nccl
    job plain "$look"
    hosts_have h1 "devices=2 spoils=1"
    hosts_have h2 "devices=2 hang=ncclAllReduce:2"
    run_job reduced
    run log_of reduced
    echo "$output"
    [[ $output == *"h1: wrong sums of an allreduce over NCCL on GPU 1 (PCI 0000:11:00.0)"* ]]
    [[ $output == *"h2: the check of an allreduce over NCCL did not end within 15 s; it was at: its first allreduce"* ]]
    [[ $output == *"the GPUs of 2 of 2 nodes were checked and can be used"*"the job's command starts"* ]]
    wait_until 60 prints_nothing lines_like mpi_bridge_gpus as_root_on h2 ps -eo args=
    hosts_have h1 "devices=2 apart=0"
    hosts_have h2 "devices=2"
    run_job reduced-slowly
    run log_of reduced-slowly
    echo "$output"
    [[ $output =~ h1:\ its\ GPUs\ reduce\ over\ NCCL\ at\ 0\.[0-9]\ GB/s,\ those\ of\ other\ nodes\ [0-9.]+ ]]
    [[ $output == *"the GPUs of 2 of 2 nodes were checked and can be used"* ]]
}

# Breaks when one bad GPU ends a job that can do without its node.
@test "an elastic job goes on without the node whose GPUs cannot be used" {
    job plain "$look" '{"environmentVariables": [{"name": "BATCHAI_ELASTIC_MIN_NODES", "value": "1"}]}'
    hosts_have h2 "devices=1"
    run_job without
    run output_of without
    echo "$output"
    [[ $(grep -c '^h1 [01] cuda=0,1' <<< "$output") -eq 2 && $output != *"h2 "* ]]
    run log_of without
    echo "$output"
    [[ $output == *"the ranks start again on 1 of 2 nodes, restart 1 of 3: CUDA sees 1 of the 2 GPUs"* ]]
    run with_site site batchai job show --name without --query executionInfo.exitCode
    [[ $output == 0 ]]
}

# Breaks when a call that never returns holds the job.
@test "a driver that hangs is named, and its process does not stay" {
    job plain "$look"
    hosts_have h1 "devices=2 hang=cuMemAlloc_v2:1"
    run_job hanging
    run failure_of hanging
    echo "$output"
    jq -e '.Node == "h1" and (.FirstErrorLine | contains("did not end within 45 s"))' <<< "$output"
    wait_until 60 prints_nothing lines_like mpi_bridge_gpus as_root_on h1 ps -eo args=
}

# Breaks when a job that hides the GPUs from its ranks is taken for one that has lost them.
@test "a job that hides its GPUs from CUDA is not checked" {
    job hidden 'echo "cuda=$CUDA_VISIBLE_DEVICES"' \
        '{"environmentVariables": [{"name": "CUDA_VISIBLE_DEVICES", "value": "-1"}]}'
    run said_through create site hidden
    echo "$output"
    [[ $(grep -c '^cuda=-1$' <<< "$output") -eq 4 ]]
}

# Breaks when the message for a host without a driver does not say what is missing.
@test "a node without NVIDIA's driver ends the job unless the check is turned off" {
    local site=site
    job plain "$look"
    as_root_on h2 mv /run/standin/libcuda.so.1 /run/standin/away
    run_job bare
    run failure_of bare
    echo "$output"
    jq -e '.Node == "h2" and (.FirstErrorLine | contains("libcuda.so.1") and contains("driver"))' <<< "$output"
    site=site-unchecked run_job unchecked
    run output_of unchecked
    echo "$output"
    [[ $(grep -c '^h[12] ' <<< "$output") -eq 4 ]]
    job plain "$look" '{"environmentVariables": [{"name": "BATCHAI_GPU_CHECK", "value": "0"}]}'
    run_job jobs-own
    run output_of jobs-own
    as_root_on h2 mv /run/standin/away /run/standin/libcuda.so.1
    echo "$output"
    [[ $(grep -c '^h[12] ' <<< "$output") -eq 4 ]]
}

# Breaks when a slow GPU ends the job, or nobody hears of it.
@test "a GPU that copies at less than half of the others' speed is named, and the job runs" {
    job plain "$look"
    hosts_have h2 "devices=2 slow=1"
    run_job slow
    run log_of slow
    echo "$output"
    [[ $output == *"h2: GPU 1 (PCI 0000:11:00.0) copies "*" GB/s, the others "*"the job's command starts"* ]]
    [[ $output == *"ended with exit code 0"* ]]
}

# Breaks when the check sees the host and not the container, or the container has no program for it.
@test "in a container, the check uses the driver that the container has" {
    local image=$share/small.sqsh root=$BATS_FILE_TMPDIR/root
    make_root "$root"
    # For the libraries of the stand-in.
    program_into "$root" "$STANDIN_CUDA"
    pack "$root" "$image"
    job plain "$look" "{\"containerSettings\": {\"imageSourceRegistry\": {\"image\": \"$image\"}}}"
    run_job contained
    run log_of contained
    echo "$output"
    [[ $output == *"the GPUs of 2 of 2 nodes were checked and can be used"* ]]
    run output_of contained
    echo "$output"
    [[ $(grep -c '^h[12] [01] cuda=0,1 gpus=2 nccl==eth0' <<< "$output") -eq 4 ]]
    job plain "$look" "{\"containerSettings\": {\"imageSourceRegistry\": {\"image\": \"$image\"}},
        \"environmentVariables\": [{\"name\": \"MPI_BRIDGE_CUDA_LIBRARY\", \"value\": \"/nowhere/libcuda.so.1\"}]}"
    run_job without-driver
    run failure_of without-driver
    echo "$output"
    jq -e '.code == "GpuCheckFailed" and .Node == "h1" and (.FirstErrorLine | contains("/nowhere/libcuda.so.1"))' <<< "$output"
}

# Breaks when Slurm spreads the GPUs of the job's node over the spare node as well, one for each.
@test "a spare node has as many GPUs as the node whose place it takes" {
    job plain "$look" '{"nodeCount": 1, "spareNodes": 1, "slurm": {"exclusive": false}}'
    hosts_have h1 "devices=1"
    run run_job spare -- --gpus=2
    echo "$output"
    [[ $output == *"--gpus=2 is asked for as --gpus-per-node=2, so that each node has as many"* ]]
    run output_of spare
    echo "$output"
    [[ $(grep -c '^h2 [0-3] cuda=0,1 gpus=2 ' <<< "$output") -eq 4 && $output != *"h1 "* ]]
}

# Breaks when the preparation or the check asks for the GPUs of the whole job beside other steps, or an
# elastic job for those of all nodes on fewer.
@test "a job that asks for GPUs of all nodes together is prepared and checked, and may lose a node" {
    job plain "$look" '{"jobPreparation": {"commandLine": "echo prepared with $CUDA_VISIBLE_DEVICES"},
        "environmentVariables": [{"name": "BATCHAI_ELASTIC_MIN_NODES", "value": "1"}]}'
    hosts_have h2 "devices=1"
    run_job together -- --gpus=4
    run output_of together stdout-job_prep-h2.txt
    echo "$output"
    [[ $output == *"prepared with 0,1"* ]]
    run output_of together
    echo "$output"
    [[ $(grep -c '^h1 [01] cuda=0,1' <<< "$output") -eq 2 && $output != *"h2 "* ]]
    run log_of together
    echo "$output"
    [[ $output == *"the ranks start again on 1 of 2 nodes, restart 1 of 3: CUDA sees 1 of the 2 GPUs"* ]]
}

# has_nvml HOST: NVIDIA's management library is found there as that of the driver's package is.
has_nvml() {
    as_root_on "$1" install -d -m 755 /run/nvml
    as_root_on "$1" sh -c 'cat > /run/nvml/libnvidia-ml.so.1' < "$STANDIN_NVML"
    as_root_on "$1" sh -c 'echo /run/nvml > /etc/ld.so.conf.d/nvml.conf'
    find_libraries_anew "$1"
}
lacks_nvml() {
    as_root_on "$1" rm -f /etc/ld.so.conf.d/nvml.conf
    find_libraries_anew "$1"
}
# What ldconfig remembers of files is the machine's, and is hidden from it.
find_libraries_anew() { as_root_on "$1" unshare --mount sh -c 'mount -t tmpfs tmpfs /var/cache && /sbin/ldconfig -X'; }
# gpus_work HOST PERCENT: so busy are all GPUs of the host.
gpus_work() { as_root_on "$1" sh -c 'echo "$1" > /run/nvml/busy' gpus_work "$2"; }

# alarms_of NAME: the texts of the job's alarms.
alarms_of() { batchai job show --name "$1" --query 'executionInfo.alarms[].message' --output tsv; }
has_an_alarm() { [[ -n $(alarms_of "$1") ]]; }
has_printed() { [[ $(batchai job logs "$1" --rank 0 | wc -l) -ge $2 ]]; }

# Breaks when GPUs that do nothing are not noticed because the ranks print, when busy ones are taken
# for idle, or when what NVML says is not noted.
@test "watch.idleGpu tells of GPUs that do nothing, and not of busy ones" {
    local host name percent idle="the job's GPUs have done nothing for [1-9][0-9]+ s"
    for host in h1 h2; do
        has_nvml "$host"
        # 5 % of the time is the least that counts.
        percent=$([[ $host == h1 ]] && echo 4 || echo 5)
        gpus_work "$host" "$percent"
        name=on-$host
        job "$name" "until [ -e $HOME_DIR/enough ]; do date; sleep 1; done" "{\"nodeCount\": 1,
            \"slurm\": {\"nodelist\": \"$host\"}, \"watch\": {\"idleGpu\": \"PT10S\"}}"
        with_site site batchai job create --name "$name" --config-file "$share/$name.json" --output none
    done
    wait_until 120 has_an_alarm on-h1
    wait_until 120 has_printed on-h2 20
    prints_nothing alarms_of on-h2
    # Now it is the other way round. The busy ones had no alarm because they were seen to be busy.
    gpus_work h1 100
    gpus_work h2 0
    wait_until 120 has_an_alarm on-h2
    as_user touch "$HOME_DIR/enough"
    for host in h1 h2; do
        name=on-$host
        run -0 with_site site batchai job wait --name "$name"
        run -0 alarms_of "$name"
        echo "$output"
        [[ ${#lines[@]} -eq 1 && $output =~ ^$idle\ \(\"watch.idleGpu\"\) ]]
        run -0 output_of "$name" execution.log
        echo "$output"
        [[ $output =~ $idle ]]
        [[ $host == h2 || $output == *'the job'"'"'s GPUs are busy again ("watch.idleGpu")'* ]]
    done
}

# Breaks when a job is ended because the GPUs of one node are idle, and nobody knows what those of the
# other do.
@test "watch.idleGpu does not judge by the GPUs of some nodes" {
    has_nvml h1
    lacks_nvml h2
    gpus_work h1 0
    job partly "until [ -e $HOME_DIR/enough ]; do date; sleep 1; done" \
        '{"watch": {"idleGpu": "PT10S", "action": "end"}}'
    as_user rm -f "$HOME_DIR/enough"
    with_site site batchai job create --name partly --config-file "$share/partly.json" --output none
    wait_until 120 has_printed partly 20
    as_user touch "$HOME_DIR/enough"
    run -0 with_site site batchai job wait --name partly
    prints_nothing alarms_of partly
}
