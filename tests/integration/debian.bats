#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Images of two Debian releases, each with a C library and a PMIx library of its own, as debootstrap
# makes them. Not among the usual tests, as it takes the package mirror: `scripts/test --full`.

bats_require_minimum_version 1.5.0
load lib
load debian_root

# Containers show the home directory.
share=/home/alice/debian-test

setup_file() {
    as_user rm -rf "$share"
    as_user mkdir "$share"
    local root
    root=$(debian_root bookworm libpmix2)
    put "$root" "$share/12.sqsh"
    root=$(debian_root trixie libpmix2t64)
    put "$root" "$share/13.sqsh"
    put "$PMIX_RING" "$share/pmix_ring"
    as_user bash -c "cat > $share/sum.py" << 'PYTHON'
import array, mpi_bridge

mpi_bridge.init()
values = array.array("f", [mpi_bridge.rank() + 1] * 5000)
mpi_bridge.allreduce(values, op=mpi_bridge.Op.SUM)
assert set(values) == {3.0}, set(values)
loaded = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
print(*sorted(path for path in loaded if "libpmix.so" in path or "libmpi_bridge" in path))
print(f"rank {mpi_bridge.rank()} of {mpi_bridge.size()}: sum 3")
PYTHON
}

teardown_file() { as_user rm -rf "$share"; }

teardown() { as_user bash -c "squeue -h -u alice -o %i | xargs -r scancel"; }

batchai() { as_user env "BATCHAI_HOME=$share/store" "$PREFIX/bin/batchai" "$@"; }

# job NAME RELEASE COMMAND [PREPARATION]: one rank on each of two nodes; prints what the job wrote.
job() {
    jq -n --arg image "$share/$2.sqsh" --arg command "$3" --arg logs "$share/logs" --arg before "${4:-true}" \
        '{properties: {nodeCount: 2, stdOutErrPathPrefix: $logs,
            containerSettings: {imageSourceRegistry: {image: $image}},
            jobPreparation: {commandLine: $before},
            customMpiSettings: {commandLine: $command}}}' | as_user bash -c "cat > $share/$1.json"
    batchai job create --name "$1" --config-file "$share/$1.json" --output none
    batchai job wait --name "$1" || true
    as_user bash -c "find $share/logs -path '*/jobs/$1/*' -name '*.*' -type f | sort | xargs tail -n +1"
}

# works_in RELEASE VERSION: everything, in one release.
works_in() {
    local version
    version=$(unsquashfs -cat "$(debian_root_of "$1")" etc/debian_version)
    [[ $version == "$1"* ]]
    run job "ring$1" "$1" "$share/pmix_ring"
    echo "$output"
    lines_are 2 "$(grep '^rank [01] ' <<< "$output")"
    [[ $output == *"PMIx wires 2 ranks in the container"* ]]
    run job "sum$1" "$1" "hello; python3 $share/sum.py" "apt-get install -y --no-download hello"
    echo "$output"
    [[ $output == *"rank 0 of 2: sum 3"* && $output == *"rank 1 of 2: sum 3"* ]]
    [[ $output == *"Setting up hello"* && $output == *"Hello, world"* ]]
    [[ $output == */opt/batchai/lib/libmpi_bridge.so.0*/usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so* ]]
    [[ $output == *"the image's own PMIx library"* ]]
}

debian_root_of() {
    case $1 in
        12) debian_root bookworm libpmix2 ;;
        13) debian_root trixie libpmix2t64 ;;
    esac
}

# Breaks when an image of the nodes' own release does not find its PMIx, ours or its packages.
@test "Debian 12: its PMIx 4.2 and ours reduce over two hosts, and apt-get installs" { works_in 12; }

# Breaks when a newer C library or PMIx is mixed up with the node's.
@test "Debian 13: its PMIx 5.0 and ours reduce over two hosts, and apt-get installs" { works_in 13; }
