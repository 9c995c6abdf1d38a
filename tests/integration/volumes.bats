#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Volumes of all kinds on real servers: Samba and WebDAV on the login host, opened by rclone on the
# nodes; directories of the site. What is written arrives, what fails says why, nothing stays behind.

bats_require_minimum_version 1.5.0
load lib

share=/shared/volumes-test
site_file=/etc/batchai/site.lua
key="open-sesame+/=="

setup_file() {
    needs_rclone
    make_home volumes
    as_root_on login install -d -m 1777 "$share" "$share/smb" "$share/dav" "$share/nfs"
    as_user mkdir -p "$share/smb/data" "$share/dav/box" "$share/nfs/set" "$share/nfs/set-two"
    as_user bash -c "echo from smb > $share/smb/data/file; echo from dav > $share/dav/box/file
        echo set > $share/nfs/set/file; ln -s /etc $share/nfs/way-out; ln -s set $share/nfs/way-in"
    start_samba
    start_webdav
    keys good "$key"
    keys bad wrong
    write_site
}

teardown_file() {
    as_root_on login bash -c "cat $share/*.pid | xargs -r kill; rm -rf $share"
    reset_site
    remove_home
}

teardown() {
    cancel_jobs
    # The next test looks at h1, which Slurm gives to no job before the epilog has ended.
    wait_until 60 nothing_is_queued
}

# As root, on the login host, with alice's name and a password of its own; nothing on the machine's
# own ports or in its own directories.
start_samba() {
    as_root_on login bash -c "mkdir -p $share/samba && cat > $share/smb.conf && chmod 700 $share/samba" << CONF
[global]
    smb ports = 4455
    bind interfaces only = yes
    interfaces = lo $(login_address)
    private dir = $share/samba
    state directory = $share/samba
    cache directory = $share/samba
    lock directory = $share/samba
    pid directory = $share
    ncalrpc dir = $share/samba/ncalrpc
    log file = $share/samba/log
    load printers = no
    disable spoolss = yes
    map to guest = never
[share]
    path = $share/smb
    read only = no
CONF
    as_root_on login bash -c "printf '%s\n%s\n' '$key' '$key' |
        smbpasswd -c $share/smb.conf -s -a alice > /dev/null
        setsid smbd -D -s $share/smb.conf < /dev/null > /dev/null 2>&1"
}

start_webdav() {
    as_user bash -c "RCLONE_USER=alice RCLONE_PASS='$key' setsid rclone serve webdav --config= \
        --addr $(login_address):8099 $share/dav < /dev/null > $share/dav.log 2>&1 & echo \$! > $share/dav.pid"
    wait_until 60 as_user grep -q "WebDav Server started" "$share/dav.log"
}

login_address() { as_user getent ahostsv4 login | sed -n '1s/ .*//p'; }

# keys NAME KEY: a credentials file of alice's.
keys() {
    as_user bash -c "umask 077; printf '%s\n' '$2' > $HOME_DIR/$1.key"
}

# write_site [SECONDS]: a mount may take so long. One that works takes less than a second, if not on a busy machine.
write_site() {
    site_lua << LUA | as_root_on login bash -c "cat > $site_file"
local function account(key)
    return {
        file_share_remote = { type = "smb", host = "$(login_address)", port = "4455",
                              user = "%u" },
        blob_container_remote = { type = "webdav", url = "http://$(login_address):8099",
                                  vendor = "other", user = "%u", path = "/%s" },
        credentials_file = "/home/%u/" .. "${HOME_DIR##*/}/" .. key .. ".key",
    }
end
return {
    mount_timeout = ${1:-60}, flush_timeout = 20,
    storage_accounts = {
        good = account("good"),
        bad = account("bad"),
        away = { file_share_remote = { type = "smb", host = "$(login_address)", port = "4456" },
                 credentials_file = "/home/%u/${HOME_DIR##*/}/good.key" },
    },
    file_servers = { nfs = { directory = "$share/nfs" } },
    named_mounts = { scratch = { directory = "$share/nfs/set", read_only = true } },
}
LUA
}

# volumes: the mountVolumes of all kinds, of the account good.
volumes() {
    cat << 'JSON'
{"azureFileShares": [{"azureFileUrl": "https://good.file.core.windows.net/share/data",
                      "relativeMountPath": "smb"}],
 "azureBlobFileSystems": [{"accountName": "good", "containerName": "box",
                           "relativeMountPath": "dav"}],
 "fileServers": [{"fileServer": {"id": "nfs"}, "sourceDirectory": "set",
                  "relativeMountPath": "nfs", "mountOptions": "ro"}],
 "unmanagedFileSystems": [{"mountCommand": "scratch", "relativeMountPath": "scratch"}]}
JSON
}

# run_job NAME VOLUMES COMMAND [NODES [PREPARATION [LOGS [OPTION…]]]]: creates the job and waits for its end.
run_job() { create_job "$@" && batchai job wait --name "$1"; }
create_job() {
    jq -n --argjson volumes "$2" --arg command "$3" --argjson nodes "${4:-1}" \
        --arg prepare "${5:-}" --arg logs "${6:-$HOME_DIR/logs}" '
        {properties: ({nodeCount: $nodes, stdOutErrPathPrefix: $logs, mountVolumes: $volumes,
                       customToolkitSettings: {commandLine: $command}}
         + if $prepare == "" then {} else {jobPreparation: {commandLine: $prepare}} end)}' |
        write_home "$1.json"
    batchai job create --name "$1" --config-file "$1.json" --output none "${@:7}"
}


# Breaks when a kind does not mount, shows another directory, or is writable in spite of "ro".
@test "all four kinds of volumes are mounted, with the rights that were asked for" {
    run_job kinds "$(volumes)" 'cd $AZ_BATCHAI_JOB_MOUNT_ROOT; cat smb/file dav/file nfs/file scratch/file
        stat -c %a smb/file smb; touch nfs/no || echo nfs is read-only'
    run --separate-stderr output_of kinds
    echo "$output"
    [[ $output == $'from smb\nfrom dav\nset\nset\n777\n777\nnfs is read-only' ]]
}

# Breaks when a step ends before its data is stored, or preparation and ranks have other data.
@test "what one step writes is there for the next, and on the server at the job's end" {
    run_job chain "$(volumes)" 'cd $AZ_BATCHAI_JOB_MOUNT_ROOT; cat smb/chain dav/chain
        echo two >> smb/chain; mkdir -p dav/deep/er; head -c 3000000 /dev/zero > dav/deep/er/big' 1 \
        'cd $AZ_BATCHAI_JOB_MOUNT_ROOT; echo one > smb/chain; echo one > dav/chain'
    run --separate-stderr output_of chain
    echo "$output"
    [[ $output == $'one\none' ]]
    [[ $(as_user cat "$share/smb/data/chain") == $'one\ntwo' ]]
    [[ $(as_user stat -c %s "$share/dav/box/deep/er/big") == 3000000 ]]
    wait_until 60 nodes_are_clean h1 h2
}

# Breaks when logs of remote storage cannot be followed, or do not get there.
@test "logs whose place is a remote share are followed by the launcher and stored on the share" {
    run_job logged "$(volumes)" 'echo said' 1 '' '$AZ_BATCHAI_JOB_MOUNT_ROOT/smb/logs'
    [[ $(output_of logged) == said ]]
    run as_user bash -c "cat $share/smb/data/logs/*/*/workspaces/*/experiments/*/jobs/logged/*/stdouterr/stdout.txt"
    [[ $output == said ]]
}

# Breaks when the key is an argument, or in any of the job's readable files.
@test "no key is in a process' arguments, a log, a record, or a dry run" {
    local volumes found
    volumes=$(volumes | jq --arg key "$key" '.azureFileShares[0].credentials.accountKey = $key')
    create_job secret "$volumes" 'touch $AZ_BATCHAI_JOB_MOUNT_ROOT/smb/began
        while [[ ! -e $HOME/'"${HOME_DIR##*/}"'/looked ]]; do sleep 0.2; done'
    wait_until 60 as_user test -e "$share/smb/data/began"
    run as_root_on h1 bash -c "cat /proc/[0-9]*/cmdline | tr '\0' ' '"
    [[ $output == *"rclone mount2 volume:share/data"* && $output != *sesame* ]]
    run as_root_on h1 bash -c 'stat -c %a /proc/$(pgrep -o rclone)/environ'
    [[ $output == 400 ]]
    as_user touch "$HOME_DIR/looked"
    batchai job wait --name secret
    found=$(as_user grep -rl sesame "$HOME_DIR" | sort)
    echo "$found"
    [[ $(grep -v 'good.key$\|secret.json$' <<< "$found") == */secrets.json ]]
    run as_user bash -c "stat -c %a $HOME_DIR/records/groups/*/workspaces/*/experiments/*/jobs/secret/secrets.json"
    [[ $output == 600 ]]
    run batchai job create --name secret2 --config-file secret.json --dry-run
    [[ $status -eq 0 && $output != *sesame* ]]
}

# Breaks when a failing mount is a failing program, names no node, or waits for ever.
@test "a mount that fails says which, where and why, and the next job is fine" {
    write_site 8
    run ! run_job wrongkey '{"azureFileShares": [{"relativeMountPath": "s",
        "azureFileUrl": "https://bad.file.core.windows.net/share"}]}' true 2 true
    run failure_of wrongkey
    echo "$output"
    [[ $(jq -r '.code, .exitCode' <<< "$output") == $'AZFMountError\n-1' ]]
    [[ $(jq -r .message <<< "$output") == "Unable to mount Azure File" ]]
    [[ $(jq -r .Node <<< "$output") == h[12] ]]
    [[ $(jq -r .FirstErrorLine <<< "$output") == *'cannot mount azureFileShares "https://bad.'*' at s: '* ]]
    run ! run_job wrongbox '{"azureBlobFileSystems": [{"accountName": "bad",
        "containerName": "box", "relativeMountPath": "b"}]}' true
    [[ $(failure_of wrongbox | jq -r .code) == BFSMountError ]]
    run ! run_job away '{"azureFileShares": [{"relativeMountPath": "s",
        "azureFileUrl": "https://away.file.core.windows.net/share"}]}' true
    [[ $(failure_of away | jq -r .code) == AZFMountError ]]
    run ! run_job gone '{"fileServers": [{"fileServer": {"id": "nfs"}, "sourceDirectory": "gone",
        "relativeMountPath": "n"}]}' true
    [[ $(failure_of gone | jq -r '.code, .FirstErrorLine') == MountError*'No such file'* ]]
    wait_until 60 nodes_are_clean h1 h2
    wait_until 60 nodes_idle 4
    write_site
    run_job fine "$(volumes)" true
}

# Breaks when a link on a file server, or one that the job plants, leads somewhere else.
@test "no link leads a mount to another place" {
    run_job inside '{"fileServers": [{"fileServer": {"id": "nfs"}, "sourceDirectory": "way-in",
        "relativeMountPath": "n"}]}' 'cat $AZ_BATCHAI_JOB_MOUNT_ROOT/n/file'
    [[ $(output_of inside) == set ]]
    run ! run_job outside '{"fileServers": [{"fileServer": {"id": "nfs"},
        "sourceDirectory": "way-out", "relativeMountPath": "n"}]}' true
    run failure_of outside
    echo "$output"
    [[ $(jq -r .code <<< "$output") == MountError ]]
    # The first step puts a link where the second is to mount.
    run ! run_job planted "$(volumes)" true 1 \
        'd=$AZ_BATCHAI_JOB_MOUNT_ROOT; mv $d $d.old; mkdir $d; ln -s /etc $d/nfs'
    run failure_of planted
    echo "$output"
    [[ $(jq -r .FirstErrorLine <<< "$output") == *"mounts/nfs: cannot be entered"* ]]
}

# Breaks when rclone or its mount outlives the job, or written data goes with it.
@test "a cancelled job and a killed sandbox leave nothing behind, and closed files are stored" {
    create_job cancelled "$(volumes)" \
        'cd $AZ_BATCHAI_JOB_MOUNT_ROOT/smb; echo kept > kept; sleep 300'
    wait_until 60 as_user test -e "$share/smb/data/kept"
    batchai job terminate --name cancelled --yes
    [[ $(as_user cat "$share/smb/data/kept") == kept ]]
    wait_until 60 nodes_are_clean h1 h2
    create_job killed "$(volumes)" 'echo late > $AZ_BATCHAI_JOB_MOUNT_ROOT/smb/late
        touch $HOME/'"${HOME_DIR##*/}"'/late; sleep 300'
    wait_until 60 as_user test -e "$HOME_DIR/late"
    as_root_on h1 pkill -9 -x batchai-node
    wait_until 60 as_root_on h1 bash -c '! pgrep -x rclone'
    batchai job terminate --name killed --yes
    wait_until 60 nodes_are_clean h1 h2
    # On the share if the upload was quicker than the kill.
    as_user bash -c "cat $share/smb/data/late; find $HOME_DIR/records -path '*/unsaved/h1/smb/late' -exec cat {} +" |
        grep -x late
}

# Breaks when data that storage did not take is lost without a word.
@test "data that the storage does not take fails the job and is saved in its directory" {
    local saved
    create_job unsaved "$(volumes)" 'cd $AZ_BATCHAI_JOB_MOUNT_ROOT/dav; touch up
        while [[ ! -e $HOME/'"${HOME_DIR##*/}"'/down ]]; do sleep 0.2; done; echo precious > result'
    wait_until 60 as_user test -e "$share/dav/box/up"
    as_user bash -c "kill \$(cat $share/dav.pid); touch $HOME_DIR/down"
    run ! batchai job wait --name unsaved
    start_webdav
    run failure_of unsaved
    echo "$output"
    [[ $(jq -r .code <<< "$output") == DataNotWritten ]]
    saved=$(as_user find "$HOME_DIR/records" -path '*/unsaved/*/dav/result')
    [[ $(as_user cat "$saved") == precious ]]
}

# Breaks when a file is taken for the one of the same size that it replaces. WebDAV keeps no times.
@test "a file that replaces one of its size arrives when the storage is back" {
    as_user rm -f "$HOME_DIR/down"
    as_user bash -c "echo old > $share/dav/box/model"
    create_job replaced "$(volumes)" 'cd $AZ_BATCHAI_JOB_MOUNT_ROOT/dav; touch ready
        while [[ ! -e $HOME/'"${HOME_DIR##*/}"'/down ]]; do sleep 0.2; done; echo new > model'
    wait_until 60 as_user test -e "$share/dav/box/ready"
    as_user bash -c "kill \$(cat $share/dav.pid); touch $HOME_DIR/down"
    wait_until 60 a_copy_has_failed
    start_webdav
    batchai job wait --name replaced
    [[ $(as_user cat "$share/dav/box/model") == new ]]
}

# The launcher has tried to copy a file without rclone's mount.
a_copy_has_failed() { as_user grep -rqs 'does not take 1 files' "$HOME_DIR"; }

# Breaks when data that neither the storage nor the job's directory takes is removed, or nobody says so.
@test "data that cannot be saved either is kept on the node until it can be" {
    local home kept log
    log=$(slurmd_log h1)
    as_user rm -f "$HOME_DIR/down"
    # The job waits until there is no room for its data.
    as_root_on login scontrol update PartitionName=main State=DOWN
    create_job full "$(volumes)" 'cd $AZ_BATCHAI_JOB_MOUNT_ROOT/dav; touch full-up
        while [[ ! -e $HOME/'"${HOME_DIR##*/}"'/down ]]; do sleep 0.2; done; yes precious | head -c 300000 > result-full'
    home=$(as_user find "$HOME_DIR/records" -path '*/jobs/full' -type d)
    as_user mkdir "$home/unsaved"
    as_root_on h1 mount -t tmpfs -o size=64k,mode=700,uid=20001 tmpfs "$home/unsaved"
    as_root_on login scontrol update PartitionName=main State=UP
    wait_until 60 as_user test -e "$share/dav/box/full-up"
    as_user bash -c "kill \$(cat $share/dav.pid); touch $HOME_DIR/down"
    run ! batchai job wait --name full
    [[ $(failure_of full | jq -r .code) == DataNotWritten ]]
    wait_until 60 nothing_is_queued
    kept=$(as_root_on h1 find /tmp -path '/tmp/batchai-20001*/unsaved-*/cache/vfs/*/result-full')
    [[ $(as_root_on h1 stat -c %s "$kept") == 300000 ]]
    prints_nothing as_root_on h1 find "$home/unsaved" -type f
    grep -q "could neither be stored nor saved in the job's directory" "$log"
    run failure_of full
    echo "$output"
    # There is room again, and another job of alice's comes to the node.
    as_root_on h1 umount "$home/unsaved"
    start_webdav
    run_job after '{}' true
    wait_until 60 as_user test -s "$home/unsaved/h1/dav/result-full"
    [[ $(as_user stat -c %s "$home/unsaved/h1/dav/result-full") == 300000 ]]
    wait_until 60 nodes_are_clean h1
}

# Breaks when a cluster's volumes do not reach its jobs, or are mistaken for the job's own.
@test "volumes of the cluster are below the cluster's mount root in each of its jobs" {
    batchai cluster create --name nc --vm-size small --target 2 --nfs nfs --afs-name share/data \
        --storage-account-name good --afs-mount-path in/share --output none
    run batchai cluster show --name nc --query "nodeSetup.mountVolumes.fileServers[0].fileServer.id" -o tsv
    [[ $output == nfs ]]
    create_job clustered '{}' 'cat $AZ_BATCHAI_MOUNT_ROOT/nfs/set/file $AZ_BATCHAI_MOUNT_ROOT/in/share/file' 1 '' \
        "$HOME_DIR/logs" --cluster nc
    batchai job wait --name clustered
    run --separate-stderr output_of clustered
    echo "$output"
    [[ $output == $'set\nfrom smb' ]]
    run ! batchai cluster create --name no --vm-size small --target 1 --nfs nfs --nfs-mount-path ../up
    [[ $output == *'".." component'* ]]
}

# Breaks when a flag's volume is not mounted beside the file's, or one without an account is guessed.
@test "the volumes of job create's flags are mounted with those of the file" {
    local nfs
    nfs=$(volumes | jq '{fileServers: [.fileServers[0]]}')
    run_job flagged "$nfs" 'cat $AZ_BATCHAI_JOB_MOUNT_ROOT/{nfs,afs,other/set}/file' 1 '' \
        "$HOME_DIR/logs" --afs-name share/data --storage-account-name good \
        --nfs nfs --nfs-mount-path other
    run --separate-stderr output_of flagged
    echo "$output"
    [[ $output == $'set\nfrom smb\nset' ]]
    run ! create_job unnamed "$nfs" true 1 '' "$HOME_DIR/logs" --bfs-name data
    echo "$output"
    [[ $output == *"--bfs-name: the storage account is not named"*"--storage-account-name"* ]]
    run ! create_job twice "$nfs" true 1 '' "$HOME_DIR/logs" --nfs nfs
    echo "$output"
    [[ $output == *'"nfs"'*overlaps* ]]
}

# Breaks when a container's steps lose what rclone serves, or the container ends before it is stored.
@test "remote storage is the same in a container, between its steps and after them" {
    as_user bash -c "mkdir -p $share/root/{bin,etc,tmp,usr/lib,proc,sys,dev} && cd $share/root/bin
        cp /bin/busybox . && for name in sh cat touch stat; do ln -sf busybox \$name; done
        printf '#!/bin/sh\nexec /bin/busybox sh \"\$@\"\n' > bash && chmod 755 bash"
    jq -n --argjson volumes "$(volumes)" --arg logs "$HOME_DIR/logs" --arg root "$share/root" '
        {properties: {nodeCount: 1, stdOutErrPathPrefix: $logs, mountVolumes: $volumes,
            containerSettings: {imageSourceRegistry: {image: $root}},
            jobPreparation: {commandLine: "echo one > $AZ_BATCHAI_JOB_MOUNT_ROOT/smb/inbox"},
            customToolkitSettings: {commandLine:
                "cd $AZ_BATCHAI_JOB_MOUNT_ROOT; cat smb/inbox dav/file nfs/file; echo two > smb/outbox"
            }}}' | as_user bash -c "cat > $HOME_DIR/boxed.json"
    batchai job create --name boxed --config-file boxed.json --output none
    batchai job wait --name boxed
    run --separate-stderr output_of boxed
    echo "$output"
    [[ $output == $'one\nfrom dav\nset' ]]
    [[ $(as_user cat "$share/smb/data/outbox") == two ]]
    wait_until 60 nodes_are_clean h1 h2
}
