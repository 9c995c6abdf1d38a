#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Images of Debian and Ubuntu releases, each with a C library and a PMIx library of its own, as
# debootstrap makes them. Not among the usual tests, as they take the mirrors: `scripts/test --full`.

bats_require_minimum_version 1.5.0
load lib
load debian_root

# Containers show the home directory.
share=/home/alice/debian-test

setup_file() {
    as_user rm -rf "$share"
    as_user mkdir "$share"
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

teardown() { cancel_jobs; }

batchai() { as_user env "BATCHAI_HOME=$share/store" "$PREFIX/bin/batchai" "$@"; }

# job NAME RELEASE COMMAND [PREPARATION]: one rank on each of two nodes; prints what the job wrote. The
# files of each rank have once more what is in the job's.
job() {
    jq -n --arg image "$share/$2.sqsh" --arg command "$3" --arg logs "$share/logs" --arg before "${4:-true}" \
        '{properties: {nodeCount: 2, stdOutErrPathPrefix: $logs,
            containerSettings: {imageSourceRegistry: {image: $image}},
            jobPreparation: {commandLine: $before},
            customMpiSettings: {commandLine: $command}}}' | as_user bash -c "cat > $share/$1.json"
    batchai job create --name "$1" --config-file "$share/$1.json" --output none
    batchai job wait --name "$1" || true
    as_user bash -c "find $share/logs -path '*/jobs/$1/*' -not -path '*/ranks/*' -name '*.*' -type f | sort | xargs tail -n +1"
}

# Where programs of the image find its own PMIx, and those of the node's bundle find that.
images_pmix=/usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so
bundled_pmix=/opt/batchai/lib/mpi_bridge/pmix/libpmix.so

# wires_up NAME: in that image, a program that was built with the nodes' PMIx runs with the image's.
wires_up() {
    run job "ring$1" "$1" "$share/pmix_ring"
    echo "$output"
    lines_are 2 "$(grep '^rank [01] ' <<< "$output")"
}

# reduces NAME GLIBC LIBRARY WORDS: in that image mpi_bridge reduces over two hosts with that PMIx
# library, the log has the words, and apt-get installs.
reduces() {
    run job "sum$1" "$1" "ldd --version; hello; python3 $share/sum.py" "apt-get install -y --no-download hello"
    echo "$output"
    [[ $output == *"rank 0 of 2: sum 3"* && $output == *"rank 1 of 2: sum 3"* ]]
    [[ $output == *"PMIx wires 2 ranks in the container"* ]]
    [[ $output == *"Setting up hello"* && $output == *"Hello, world"* ]]
    [[ $output == *"GLIBC $2"* && $output == */opt/batchai/lib/libmpi_bridge.so.0*"$3"* ]]
    [[ $output == *"$4"* ]]
}

# Breaks when an image of the nodes' own release does not find our libraries, or its packages.
@test "Debian 12, which has the node's PMIx 4.2" {
    local root
    root=$(debian_root bookworm python3 libpmix2)
    put "$root" "$share/debian12.sqsh"
    wires_up debian12
    reduces debian12 2.36 "$bundled_pmix" "with the node's PMIx library 4.2."
}

# Breaks when a newer C library or PMIx is mixed up with the node's.
@test "Debian 13, whose PMIx 5.0 is newer" {
    local root
    root=$(debian_root trixie python3 libpmix2t64)
    put "$root" "$share/debian13.sqsh"
    wires_up debian13
    reduces debian13 2.41 "$images_pmix" "with the image's own PMIx library 5."
}

# Breaks when the bundle needs a newer C library than its manifest says: libevent of the node is
# built for glibc 2.36.
@test "Ubuntu 22.04, whose C library and PMIx 4.1 are older" {
    [[ -n ${UBUNTU_MIRROR:-} ]] || skip "UBUNTU_MIRROR names no mirror of Ubuntu"
    local root
    root=$(ubuntu_root jammy python3 libpmix2)
    put "$root" "$share/ubuntu2204.sqsh"
    reduces ubuntu2204 2.35 "$bundled_pmix" "libpmix.so.2), 4.1.2, is not newer"
}

# Breaks when an image that cannot run the bundle fails, or nobody says why it gets none.
@test "Debian 11, whose C library is too old, is told so and runs" {
    local root
    root=$(debian_root bullseye)
    put "$root" "$share/debian11.sqsh"
    run job old debian11 'ldd --version; cat /opt/batchai/not-injected; echo "ran [$PYTHONPATH]"'
    echo "$output"
    [[ $output == *"GLIBC 2.31"* && $output == *"ran []"* ]]
    local why="the image has glibc 2.31, and mpi_bridge of the node needs 2.35 or newer"
    [[ $output == *"not brought into the container: $why"* && $output == *$'\n'"$why"* ]]
    [[ $output == *"the wire-up check runs on the nodes, not in the container"*"$why"* ]]
}
