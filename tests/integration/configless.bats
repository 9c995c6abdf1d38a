#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# A site whose hosts fetch Slurm's files from the controller ("configless"), as docs/plugin.md sets it up:
# h1 to h4 have no /etc/slurm.

bats_require_minimum_version 1.5.0
load lib

setup_file() {
    own_cluster cl --with configless
    make_home configless
    write_mpi_job two.json 2 hostname
}

teardown_file() {
    remove_home
    "$MINICLUSTER" down --name "$MINICLUSTER_NAME" --keep-logs
}

teardown() { restore; }

# restore: puts back what the test about a missing line has changed.
restore() {
    as_root_on login test -d /tmp/before || return 0
    as_root_on login sh -c 'cp /tmp/before/* /etc/slurm/ && rm -r /tmp/before'
    reconfigured
}

# option_on HOST: for wait_until; the commands there know --job-json.
option_on() { as_user_on "$1" srun --help | grep -q -e --job-json; }

# reconfigured: Slurm reads its files again, and all hosts have fetched them. A line of slurm.conf tells.
reconfigured() {
    local mark="# $RANDOM$RANDOM"
    as_root_on login sh -c 'echo "$1" >> /etc/slurm/slurm.conf && scontrol reconfigure' sh "$mark"
    for host in h1 h2 h3 h4; do
        wait_until 60 as_user_on "$host" grep -qxF -e "$mark" /run/slurm/conf/slurm.conf
    done
}

# check_on HOST ID: a check of this host there.
check_on() { as_user_on "$1" "$PREFIX/bin/batchai" admin check --this-host --only "$2"; }

# Breaks when the page leaves a step out, so that a host lacks the plugin or Slurm refuses jobs.
@test "what the page has written on the controller reaches the hosts" {
    prints_nothing as_root_on h2 find /etc -maxdepth 1 -name slurm
    # The test cluster is set up as the page would do it.
    as_root_on login sh -c 'cd /etc/slurm && sed -i /^CliFilterPlugins=/d slurm.conf && rm cli_filter.lua && : > plugstack.conf'
    reconfigured
    restart_slurmds
    run ! option_on h2
    block_of plugin.md sh | sed "s|/opt/batchai|$PREFIX|" | as_root_on login bash -e
    reconfigured
    restart_slurmds
    for host in login h2; do
        option_on "$host"
        # The file has the sizes, which the filter sets.
        run -0 as_user_on "$host" srun --quiet --job-json="$HOME_DIR/two.json" hostname
        [[ $(sort <<< "$output") == $'h1\nh2' ]]
    done
    create two
    batchai job wait --name two
    [[ $(output_of two | sort) == $'h1\nh2' ]]
}

# Breaks when the age of the copies that slurmd has fetched is taken for that of the plugin's line.
@test "the copies on the hosts are no reason for a warning" {
    reconfigured
    run batchai admin check --cluster
    echo "$output"
    grep -E '^ok +plugin\.line +h1, h2, h3, h4: .*/plugstack\.conf:[0-9]*: optional ' <<< "$output"
    run ! grep -E '^(warning|error|unknown) +(plugin|filter)\.' <<< "$output"
    run -0 as_user_on h2 "$PREFIX/bin/batchai" admin show-config
    [[ $output == *'"/run/slurm/conf/slurm.conf"'*'"/run/slurm/conf/plugstack.conf"'* ]]
}

# Breaks when the remedy is to write a file on hosts that are to have none.
@test "a line that Slurm does not send is missed, with the place where it must be" {
    as_root_on login sh -c 'mkdir /tmp/before && cd /etc/slurm && cp -p plugstack.conf slurm.conf /tmp/before/ &&
        cp plugstack.conf plugstack.conf.d/batchai.conf && echo "include /etc/slurm/plugstack.conf.d/*.conf" > plugstack.conf'
    reconfigured
    run -2 check_on h2 plugin.line
    echo "$output"
    [[ $output == *'no line of /run/slurm/conf/plugstack.conf loads batchai.so'*'into plugstack.conf on the controller'* ]]
    as_root_on login sh -c 'cd /etc/slurm && rm plugstack.conf.d/batchai.conf && cp /tmp/before/plugstack.conf . &&
        echo PlugStackConfig=/etc/slurm/plugstack.conf >> slurm.conf'
    reconfigured
    run -2 check_on h2 plugin.line
    echo "$output"
    [[ $output == *'/etc/slurm/plugstack.conf'*'PlugStackConfig in slurm.conf must not name a directory'* ]]
    restore
    run -0 check_on h2 plugin.line
}

# Breaks when the page is wrong about hosts whose commands fetch the configuration each for itself.
@test "a login host without slurmd has the option, with the filter in its /etc/slurm" {
    as_root_on h3 sh -c 'rm /run/slurm/conf && mkdir /etc/slurm && cp "$1/share/batchai/cli_filter.lua" /etc/slurm/' sh "$PREFIX"
    run as_user_on h3 env SLURM_CONF_SERVER=login:6817 srun --quiet --job-json="$HOME_DIR/two.json" hostname
    as_root_on h3 sh -c 'ln -s /var/lib/slurm/slurmd/conf-cache /run/slurm/conf && rm -r /etc/slurm'
    echo "$output"
    [[ $status -eq 0 && $(sort <<< "$output") == $'h1\nh2' ]]
}
