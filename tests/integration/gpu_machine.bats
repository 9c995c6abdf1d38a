#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# tests/gpu/cluster on machines that have neither Slurm nor a network, as one with a GPU may: its
# cluster and jobs, but for the GPU. Not among the usual tests, as it takes the mirror.

bats_require_minimum_version 1.5.0
load lib
load debian_root
load in_root

setup_file() { "$SOURCE/tests/gpu/cluster/pack" --prefix "$PREFIX" "$BATS_FILE_TMPDIR/pack.tar.xz"; }

# on_bare SUITE PYTHON [DIRECTORY]: runs it on a fresh machine of that release, which has PYTHON in
# DIRECTORY of this machine. Control groups are those of version 2.
on_bare() {
    local suite=$1 python=$2 root=$BATS_TEST_TMPDIR/root image
    image=$(debian_host_root "$suite" python3,libexpat1)
    unsquashfs -q -n -d "$root" "$image" > /dev/null
    # shellcheck disable=SC2016 # for the inner shell
    in_root "$root" "$SOURCE" "$BATS_FILE_TMPDIR:/pack" ${3:+"$3"} -- unshare --net bash -c '
        umount -R /sys/fs/cgroup
        mount -t cgroup2 cgroup2 /sys/fs/cgroup
        for program in munged slurmd ip cc; do
            ! command -v "$program" || { echo "this machine is not bare: it has $program"; exit 1; }
        done
        "$1/tests/gpu/cluster/run" --pack /pack/pack.tar.xz --out /report --python "$2"
    ' - "$SOURCE" "$python"
}

# Breaks when the pack lacks a program or a library, or a job of these kinds does not run there.
@test "on a bare Debian 12, the jobs of tests/gpu/cluster train without a GPU" {
    [[ $(stat -c %s "$BATS_FILE_TMPDIR/pack.tar.xz") -le $((40 << 20)) ]]
    local environment
    # shellcheck disable=SC2153 # ctest sets PYTHON
    environment=$(realpath "$(dirname "$PYTHON")/..")
    cd "$SOURCE"
    run -77 on_bare bookworm "$environment/bin/python3" "$environment"
    echo "$output"
    [[ $(grep -c '^PASSED' <<< "$output") -eq 7 && $output != *"NOT RUN"* ]]
}

# Breaks when libraries of the pack take the place of the machine's own, which are newer there.
@test "on a bare Debian 13, what needs no PyTorch runs, and the rest says why not" {
    cd "$SOURCE"
    run -77 on_bare trixie /usr/bin/python3
    echo "$output"
    [[ $(grep -c '^PASSED' <<< "$output") -eq 3 ]]
    [[ $(grep -c '^NOT RUN .*/usr/bin/python3 has no PyTorch' <<< "$output") -eq 4 ]]
}
