#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The packages on hosts of a fresh Debian of this release with Slurm, which show nothing of this machine: what
# docs/packages.md tells an admin, in this order. The tests build on each other. ctest sets SOURCE,
# PACKAGES, MINICLUSTER, MINICLUSTER_NAME and BATCHAI_CACHE.

bats_require_minimum_version 1.5.0
load ../integration/lib
load ../integration/debian_root

export PREFIX=/usr
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
series=$(slurmd -V | sed -n 's/^slurm[^ ]* \([0-9]*\.[0-9]*\).*/\1/p')
plugin_line=/usr/share/batchai/slurm-$series/plugstack.conf
# What a site has that runs Slurm, and a registry of its own.
site_packages=(slurmctld slurmd slurmdbd slurm-client slurm-wlm-basic-plugins slurm-wlm-mysql-plugin
    munge mariadb-server-core mariadb-client-core iproute2 procps hostname docker-registry
    busybox-static)
our_packages=(batchai "batchai-slurm-plugin-$series" libmpi-bridge0 libmpi-bridge-dev python3-mpi-bridge)

setup_file() {
    export ROOT=$BATCHAI_CACHE/packages-root
    rm -rf "$ROOT"
    unsquashfs -q -n -d "$ROOT" "$(debian_host_root "$release" "${site_packages[@]}")" > /dev/null
    mkdir -p "$ROOT/srv"
    cp -r "$PACKAGES/one" "$PACKAGES/two" "$ROOT/srv/"
    # The site's own files, before anything of ours is there.
    settings_of "$ROOT" > "$BATS_FILE_TMPDIR/settings"
    # Where on-debian takes an old mirror of Debian testing, so do these hosts.
    local old=/etc/apt/apt.conf.d/90-old-mirror
    [[ ! -e $old ]] || cp "$old" "$ROOT$old"
    in_root apt-get update
    in_root sh -c 'cd /srv/one && apt-get install -y ./*.deb' > "$BATS_FILE_TMPDIR/install.log" 2>&1 ||
        { tail -n 30 "$BATS_FILE_TMPDIR/install.log"; return 1; }
    "$MINICLUSTER" up --root "$ROOT"
    make_home packages
}

teardown_file() {
    "$MINICLUSTER" down
    rm -rf "$ROOT"
}

in_root() { DEBIAN_FRONTEND=noninteractive chroot "$ROOT" "$@" < /dev/null; }

# settings_of ROOT: the files of Slurm's and our settings, with their digests.
settings_of() { (cd "$1" && find etc/slurm etc/batchai -type f -exec sha256sum {} + 2> /dev/null | sort) || true; }

# apt WORDS…: on the login host, as root and without a network; all hosts have the same /usr.
apt() { as_root_on login env DEBIAN_FRONTEND=noninteractive apt-get -y "$@" < /dev/null; }

has_option() { as_user srun --help | grep -q -e --job-json; }

# version NAME: which is installed.
version() { as_root_on login dpkg-query -W -f '${db:Status-Status} ${Version}' "$1"; }

# Breaks when the packages cannot be installed with what Debian has, or do something by themselves.
@test "installing the packages changes nothing" {
    local name
    for name in "${our_packages[@]}"; do [[ $(version "$name") == "installed 0.1.0-1" ]]; done
    settings_of "$ROOT" | diff "$BATS_FILE_TMPDIR/settings" -
    # Debian keeps lists of what belongs to a package; none of ours has a file in /etc.
    prints_nothing lines_like '^/etc' as_root_on login dpkg -L "${our_packages[@]}"
    as_user srun -N4 hostname
    run has_option
    [[ $status -eq 1 ]]
    run as_user batchai version
    echo "$output"
    [[ $status -eq 0 && $output == *0.1.0* ]]
    prints_nothing as_root_on login ldconfig -N -X
    as_user python3 -c 'import mpi_bridge, horovod'
}

# Breaks when the package's line does not load the plugin, or more than the line is needed.
@test "one line makes Slurm load the plugin" {
    as_root_on login cp "$plugin_line" /etc/slurm/plugstack.conf.d/batchai.conf
    has_option
    as_user sh -c 'printf "{\"properties\": {\"nodeCount\": 2, \"stdOutErrPathPrefix\": \"%s\",
        \"customMpiSettings\": {\"commandLine\": \"true\"}}}" "$HOME" > line.json'
    run as_user srun -N2 --job-json=line.json sh -c 'echo "of $AZ_BATCHAI_JOB_NAME$SLURM_PROCID"'
    echo "$output"
    [[ $status -eq 0 && $(grep -cE '^of .+[01]$' <<< "$output") -eq 2 ]]
    run as_user batchai admin check --cluster
    echo "$output"
    [[ $status -le 1 && $output == *"0 errors"* ]]
}

# Breaks when a package leaves out what the tutorial needs: its container, its preparation, its `az`.
@test "the tutorial's job runs" {
    # With the machine's own search path: bats puts its inner programs at the head of PATH.
    run env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$HOME" TERM=dumb SOURCE="$SOURCE" PREFIX="$PREFIX" \
        MINICLUSTER="$MINICLUSTER" MINICLUSTER_NAME="$MINICLUSTER_NAME" BATCHAI_CACHE="$BATCHAI_CACHE" \
        bats --print-output-on-failure "$SOURCE/tests/integration/tutorial.bats"
    echo "$output"
    [[ $status -eq 0 ]]
}

# waiting_job NAME NODES: writes the file of a job whose ranks end when $HOME_DIR/go is there.
waiting_job() {
    jq -n --arg home "$HOME_DIR" --arg name "$1" --argjson nodes "$2" '{properties: {nodeCount: $nodes,
        stdOutErrPathPrefix: ($home + "/logs"),
        jobPreparation: {commandLine: ("touch " + $home + "/prepared-" + $name)},
        customMpiSettings: {commandLine: ("while ! [ -e " + $home + "/go ]; do sleep 0.2; done")}}}' |
        write_home "$1.json"
}

# Breaks when a running job uses a file that the upgrade replaces, or a queued one a file that is gone.
@test "an upgrade loses neither a running nor a queued job" {
    local name
    # Preparation comes before the upgrade, and the end of the job after it.
    waiting_job running 3
    create running
    # And one with a step before the upgrade and a step after it.
    write_home steps.sh << SCRIPT
#!/bin/bash
srun -n1 sh -c 'echo first step'
touch $HOME_DIR/first
while ! [ -e $HOME_DIR/go ]; do sleep 0.2; done
srun -n1 sh -c 'echo second step'
SCRIPT
    jq -n --arg home "$HOME_DIR" '{properties: {nodeCount: 1, stdOutErrPathPrefix: ($home + "/logs"),
        customMpiSettings: {commandLine: "true"}}}' | write_home steps.json
    local steps
    steps=$(as_user sbatch --parsable -N1 --job-json="$HOME_DIR/steps.json" \
        --output="$HOME_DIR/steps.out" "$HOME_DIR/steps.sh")
    wait_until 60 state_is running running
    wait_until 60 as_user test -e "$HOME_DIR/prepared-running"
    wait_until 60 as_user test -e "$HOME_DIR/first"
    # After the others have started: it needs all nodes.
    waiting_job queued 4
    create queued
    [[ $(batchai job show --name queued --query executionState --output tsv) == queued ]]

    # shellcheck disable=SC2046 # one argument a package
    run apt install $(as_root_on login sh -c 'echo /srv/two/*.deb')
    echo "$output"
    [[ $status -eq 0 ]]
    for name in "${our_packages[@]}"; do [[ $(version "$name") == "installed 0.1.0-2" ]]; done

    state_is running running
    as_user touch "$HOME_DIR/go"
    wait_until 90 state_is running succeeded
    wait_until 90 state_is queued succeeded
    wait_until 60 job_is "$steps" COMPLETED
    run as_user cat "$HOME_DIR/steps.out"
    echo "$output"
    [[ $output == *"first step"*"second step"* ]]
}

# Breaks when removal takes what is the admin's, leaves what is ours, or does not say what to do.
@test "removal leaves only configuration, and says which line is left" {
    wait_until 60 nothing_is_queued
    as_root_on login sh -c 'mkdir -p /etc/batchai && echo "return {}" > /etc/batchai/site.lua'
    run apt purge "${our_packages[@]}"
    echo "$output"
    [[ $status -eq 0 && $output == *"warning: the plugin is still named in:"*/etc/slurm/plugstack.conf.d/batchai.conf* ]]
    as_root_on login test -e /etc/slurm/plugstack.conf.d/batchai.conf
    as_root_on login test -e /etc/batchai/site.lua
    # With the line left, jobs still run.
    run as_user srun -N4 hostname
    echo "$output"
    [[ $status -eq 0 && $output == *h4* ]]
    as_root_on login rm /etc/slurm/plugstack.conf.d/batchai.conf
    run as_user srun -N4 hostname
    [[ $status -eq 0 && $output != *batchai* ]]
    # Nothing else: not in the system's directories, and not in dpkg's.
    prints_nothing as_root_on login find /usr /var/lib/dpkg/info /opt /etc -xdev \
        -iname '*batchai*' -not -path '/etc/batchai' -not -path '/etc/batchai/*'
    prints_nothing as_root_on login find /usr /var/lib/dpkg/info /opt -xdev \
        -name '*mpi_bridge*' -o -name '*mpi-bridge*' -o -name horovod
}
