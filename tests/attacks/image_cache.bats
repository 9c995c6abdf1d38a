#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bob against alice's images: what is in them is hers, and only she, root and the owner whom the site
# names decide what her jobs run in.

bats_require_minimum_version 1.5.0
load ../integration/lib
load ../integration/registry

home=/shared/alice_image_attack
shared=/shared/image_attack

setup_file() {
    as_root_on login install -d -m 755 -o alice $home
    as_root_on login install -d -m 1777 $shared
    image $home/layout v1 one 16
    as_user chmod -R a+rX $home/layout
    as_root_on login install -d -m 755 -o bob $shared/of_bob
    as_root_on login install -d -m 755 -o bob $shared/configured
}

teardown_file() {
    [[ ! -e $BATS_FILE_TMPDIR/registries ]] || end_registries
    as_root_on login rm -rf $shared
    as_root_on login rm -rf $home /home/bob/image_attack
}

teardown() { [[ ! -s $BATS_TEST_TMPDIR/changing ]] || kill "$(cat "$BATS_TEST_TMPDIR/changing")" || true; }

# site LINES: alice's site file.
site() { site_lua <<< "return { $1 }" | as_user bash -c "cat > $home/site.lua"; }

# Where everybody may look for files: only what batchai itself does protects alice's.
records_of() { if [[ $1 == alice ]]; then echo "$home/records"; else echo "/home/$1/image_attack"; fi; }

as_with_site() {
    local who=$1
    shift
    "$MINICLUSTER" exec --user "$who" -- env BATCHAI_SITE=$home/site.lua \
        "BATCHAI_HOME=$(records_of "$who")" "$PREFIX/bin/batchai" "$@"
}

pull() { as_with_site alice image pull "oci:$home/layout:v1"; }

# the_image DIRECTORY: the one that is in it.
the_image() { as_root_on login find "$1" -name '*.squashfs' -not -path '*/.import/*'; }

# Breaks when an imported image is readable by others, as it was with mode 0444.
@test "bob cannot read what alice imported" {
    site ''
    pull
    file=$(the_image $home/records/images)
    [[ -n $file ]]
    # Also where the directories above do not protect it.
    as_user chmod 755 $home/records $home/records/images
    run as_bob cat "$file"
    [[ $status -ne 0 && $output == *"Permission denied"* ]]
    [[ $(as_user stat -c %a "$file") == 400 ]]
    [[ $(as_user stat -c %a "${file%.squashfs}.json") == 600 ]]
    run as_bob ls "$home/records/images/.import"
    [[ $status -ne 0 ]]
}

# Breaks when a file that another user put into a shared directory is believed.
@test "an image of bob's in a shared directory is not run by alice" {
    site ''
    pull
    name=$(basename "$(the_image $home/records/images)")
    as_bob sh -c "echo poison > $shared/of_bob/$name && chmod 444 $shared/of_bob/$name"
    site "shared_image_directory = '$shared/of_bob'"
    run pull
    [[ $status -ne 0 ]]
    [[ $output == *"not trusted"* ]]
}

# Breaks when the configured owner's images are refused, or anybody else's accepted beside them.
@test "the owner whom the site names fills the shared directory for all" {
    site "shared_image_directory = '$shared/configured', shared_image_owner = 'bob'"
    as_with_site bob image pull --shared "oci:$home/layout:v1"
    file=$(the_image $shared/configured)
    [[ $(as_user stat -c '%a %U' "$file") == "444 bob" ]]
    as_user rm -rf $home/records
    run -0 --separate-stderr pull
    [[ $output == *"$file"* ]]
    # The same file by somebody else: refused.
    as_root_on login chown nobody "$file"
    run pull
    [[ $status -ne 0 && $output == *"not trusted"* ]]
    as_root_on login chown bob "$file"
    as_root_on login chmod 464 "$file"
    run pull
    [[ $status -ne 0 && $output == *"can be written to by others"* ]]
}

# Breaks when the node believes an image that changed hands after the job was planned.
@test "a job does not start in an image that is bob's by then" {
    as_root_on login rm -rf "$shared/configured"
    as_root_on login install -d -m 755 -o root "$shared/configured"
    site "shared_image_directory = '$shared/configured'"
    as_user tee $home/job.json > /dev/null << JSON
{"properties": {"nodeCount": 1, "stdOutErrPathPrefix": "$home",
    "containerSettings": {"imageSourceRegistry": {"image": "oci:$home/layout:v1"}},
    "customToolkitSettings": {"commandLine": "true"}}}
JSON
    as_user rm -rf $home/records
    pull
    file=$(the_image $home/records/images)
    # The job must not look at the image before it is bob's.
    as_bob sbatch --quiet --nodes=4 --exclusive --output=/dev/null --wrap 'sleep 300'
    wait_until 60 nodes_idle 0
    as_with_site alice job create --name victim --config-file $home/job.json
    as_root_on login chown bob "$file"
    as_bob scancel --user=bob
    run as_with_site alice job wait --name victim
    [[ $status -ne 0 ]]
    run -0 as_with_site alice job show --name victim --query 'executionInfo.errors[0]'
    [[ $output == *"not trusted"* ]]
}

# changing_layout: $shared/of_bob/layout:v1, a layout of bob's that is the genuine image to all but skopeo's
# copy, which sees his own. The index is a FIFO, and /proc says who reads it. Root serves it, as for a bob
# who always guesses right: with hidepid, he does not see the processes of others.
changing_layout() {
    # Remote file systems may lack the extended attributes that umoci looks for.
    as_bob bash -c "rm -rf $shared/of_bob/layout && cp -r $home/layout $shared/of_bob/layout &&
        cd $shared/of_bob/layout && cp index.json ../genuine.json &&
        echo his > /tmp/version-of-bob && umoci insert --rootless --image .:v1 /tmp/version-of-bob /version &&
        mv index.json ../his.json && mkfifo index.json && chmod -R a+rX ."
    local serve='import glob, os, signal, sys
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
os.chdir(sys.argv[1])
while True:
    index = os.open("layout/index.json", os.O_WRONLY)
    # The next reader has a pipe of its own.
    os.mkfifo("next", 0o644)
    os.rename("next", "layout/index.json")
    copies = False
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            words = open(path, "rb").read().split(bytes(1))
        except OSError:
            continue
        copies |= words[:2] == [b"skopeo", b"copy"] and any(b"of_bob/layout" in word for word in words)
    try:
        os.write(index, open("his.json" if copies else "genuine.json", "rb").read())
    except OSError:
        pass
    os.close(index)'
    "$MINICLUSTER" exec --user root -- timeout 900 python3 -c "$serve" $shared/of_bob 3>&- &
    echo $! > "$BATS_TEST_TMPDIR/changing"
}

# Breaks when an image is filed under a digest that was asked for before it was copied.
@test "bob's layout cannot put his root file system under the digest of a genuine image" {
    registry open 5003
    push $home/layout:v1 login:5003/genuine:v1 --dest-tls-verify=false
    changing_layout
    as_user rm -rf $home/records
    as_root_on login install -d -m 755 -o alice $shared/filled
    site "insecure_registries = {'login:5003'}, shared_image_directory = '$shared/filled', shared_image_owner = 'alice'"
    for where in "" --shared; do
        # shellcheck disable=SC2086 # it may be empty
        run as_with_site alice image pull $where "oci:$shared/of_bob/layout:v1"
        echo "$output"
        [[ $status -ne 0 && $output == *"is not what its source said"* ]]
    done
    prints_nothing the_image $home/records
    prints_nothing the_image $shared/filled
    # What her jobs get is the genuine one.
    as_with_site alice image pull login:5003/genuine:v1
    as_user tee $home/job.json > /dev/null << JSON
{"properties": {"nodeCount": 1, "stdOutErrPathPrefix": "$home",
    "containerSettings": {"imageSourceRegistry": {"image": "login:5003/genuine:v1"}},
    "customToolkitSettings": {"commandLine": "cat /version"}}}
JSON
    as_with_site alice job create --name genuine --config-file $home/job.json
    as_with_site alice job wait --name genuine
    [[ $(as_with_site alice job logs genuine) == *one* ]]
}

# Breaks when an image of a file takes the place that a registry's image with the same manifest has.
@test "an image of a file has a place of its own in the cache" {
    as_user rm -rf $home/records
    site "insecure_registries = {'login:5003'}"
    pull
    [[ $(basename "$(the_image $home/records)") == local-* ]]
    run -0 as_with_site alice image pull login:5003/genuine:v1
    [[ $output == *"login:5003/genuine:v1 is imported"* ]]
    lines_are 2 "$(the_image $home/records)"
}
