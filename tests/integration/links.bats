#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The check of the links between nodes, on hosts whose network is made slow, or does not carry anything.
# A container is in inject.bats.

bats_require_minimum_version 1.5.0
load lib

setup() { make_home "links-$BATS_TEST_NUMBER"; }

teardown() {
    # As it was, whatever the test has changed.
    as_root_on h3 tc qdisc replace dev eth0 root noqueue
    as_root_on h3 ip route flush type blackhole
    know_themselves_again
    cancel_jobs
    wait_until 60 nodes_are_clean h1 h2 h3 h4
    remove_home
}

# shellcheck disable=SC2016 # for awk
address_of() { as_root_on "$1" ip -4 -br addr show eth0 | awk '{ sub("/.*", "", $3); print $3 }'; }

# know_themselves_by_loopback: as Debian and Ubuntu set hosts up, each has its own name at 127.0.1.1.
know_themselves_by_loopback() {
    local host
    for host in h1 h2 h3 h4; do
        # shellcheck disable=SC2016 # for the shell on that host
        as_root_on "$host" sh -c '{ echo "127.0.1.1 $(hostname) $1"; grep -vE "[[:space:]]($(hostname)|$1)([[:space:]]|$)" /etc/hosts; } > /run/own-hosts
            mount --bind /run/own-hosts /etc/hosts' know "$host"
    done
}
know_themselves_again() {
    local host
    for host in h1 h2 h3 h4; do
        as_root_on "$host" sh -c '! mountpoint -q /etc/hosts || umount /etc/hosts; rm -f /run/own-hosts'
    done
}

# checked NAME COMMAND [MORE]: runs a job on four nodes whose links are checked; "log" is then its log.
checked() {
    write_mpi_job "$1.json" 4 "$2" "$(jq -n --argjson more "${3:-{\}}" \
        '{environmentVariables: [{name: "BATCHAI_LINK_CHECK", value: "1"}]} + $more')"
    create "$1"
    run --separate-stderr batchai job wait --name "$1"
    log=$(as_user sh -c "cat \$(find $HOME_DIR/logs -path '*/$1/*' -name 'execution*.log')")
    echo "$log"
}

# Breaks when the links are not measured, or when that costs jobs which have not asked for it.
@test "the links of four nodes are measured, before the ranks" {
    local try
    # The best of three: a busy machine may hold up what one node sends.
    for try in 1 2 3; do
        checked "all$try" 'echo done'
        [[ $status -eq 0 && $log == *'6 links between 4 nodes carry '*' each way ('*' us'* ]]
        if [[ $log != *'its links carry'* ]]; then break; fi
    done
    [[ $log != *'its links carry'* ]]
    write_mpi_job unasked.json 2 true
    create unasked
    batchai job wait --name unasked
    [[ $(as_user grep -rl 'links between' "$HOME_DIR/logs") != *unasked* ]]
}

# Breaks when a slow node is not told from those that only have a link to it.
@test "a node with a slow network is named, and the job runs" {
    as_root_on h3 tc qdisc add dev eth0 root tbf rate 200mbit burst 64kb latency 50ms
    local try
    # The best of three: a busy machine may hold up one of the other links as well.
    for try in 1 2 3; do
        checked "slow$try" 'echo done'
        [[ $status -eq 0 ]]
        if [[ $log == *'h3: its links carry '* && $log != *'the link between'* ]]; then break; fi
    done
    [[ $log == *'h3: its links carry '*' MB/s, and the usual link '* ]]
    [[ $log != *'the link between'* ]]
    run -0 output_of "slow$try"
    [[ $output == *done* ]]
}

# Breaks when ranks start that could not talk to each other, or when nobody says why, or another link is
# named. Slurm's own PMIx needs this link, too, so its check tells; Slurm's PMI-2 does not need it.
@test "a link that carries nothing ends the job before its ranks" {
    as_root_on h3 ip route add blackhole "$(address_of h4)"
    checked cut 'echo done'
    [[ $status -ne 0 ]]
    if [[ $(slurm_mpi) == pmix ]]; then
        [[ $log == *'the links of '*' of 4 nodes were not checked; '* ]]
    else
        [[ $log == *': h3 with h4: '* || $log == *': h4 with h3: '* ]]
    fi
    run -0 batchai job show --name cut --query 'executionInfo.errors[0].code' -o tsv
    [[ $output == WireUpFailed || $output == LinkCheckFailed ]]
    run output_of cut
    [[ $output != *done* ]]
}

# Breaks when the first node tells the others an address that is its own loopback to it, or its name.
@test "hosts that know themselves only by their loopback are told each other's addresses" {
    local addresses host
    addresses=$(for host in h1 h2 h3 h4; do address_of "$host"; done | paste -sd ,)
    know_themselves_by_loopback
    # shellcheck disable=SC2016 # for the ranks
    write_mpi_job own.json 4 'echo "list $AZ_BATCH_HOST_LIST of $MASTER_ADDR, $AZ_BATCHAI_JOB_MASTER_NODE_IP"'
    create own
    run -0 batchai job wait --name own
    run --separate-stderr -0 output_of own
    echo "$output"
    [[ $(sort -u <<< "$output") == "list $addresses of ${addresses%%,*}, ${addresses%%,*}" ]]
}
