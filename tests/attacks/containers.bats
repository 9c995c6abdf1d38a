#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# What bob does on a host while alice's containers start there.

bats_require_minimum_version 1.5.0
load ../integration/lib
load ../integration/small_image

share=/shared/attacks-containers

setup_file() {
    as_root_on login install -d -m 1777 "$share"
    local root=$BATS_FILE_TMPDIR/root
    make_root "$root"
    # Images have such links, as /var/run is in Debian's. What is mounted below /shared goes over it.
    mkdir "$root/srv"
    ln -s var/../etc/../usr/../var/../srv "$root/shared"
    pack "$root" "$share/image.sqsh"
    as_user bash -c "cat > $share/job.json" << JSON
{"properties": {"nodeCount": 1, "stdOutErrPathPrefix": "$share/logs",
    "containerSettings": {"imageSourceRegistry": {"image": "$share/image.sqsh"}},
    "customToolkitSettings": {"commandLine": "true"}}}
JSON
}

teardown() {
    [[ ! -s $BATS_TEST_TMPDIR/renamer ]] || kill "$(cat "$BATS_TEST_TMPDIR/renamer")" || true
}
teardown_file() { as_root_on login rm -rf "$share"; }

# renames: bob renames a file of his own in a loop.
renames() {
    local loop='import os, sys
os.chdir(sys.argv[1])
open("0", "w").close()
while True:
    os.rename("0", "1")
    os.rename("1", "0")'
    as_root_on h1 install -d -o bob /tmp/of-bob
    "$MINICLUSTER" exec --user bob --host h1 -- timeout 900 python3 -c "$loop" /tmp/of-bob 3>&- &
    echo $! > "$BATS_TEST_TMPDIR/renamer"
    wait_until 60 is_renaming
}

is_renaming() { as_root_on h1 pgrep -u bob python3 > /dev/null; }

# Breaks when the kernel's EAGAIN for a path with ".." is taken for a fault of the path.
@test "bob cannot keep alice's containers from starting by renaming a file in a loop" {
    renames
    local failed=0
    for _ in {1..10}; do
        as_user srun -w h1 --job-json="$share/job.json" cat /etc/made-for || failed=$((failed + 1))
    done
    # The attack went on until the end.
    is_renaming
    [[ $failed -eq 0 ]]
}
