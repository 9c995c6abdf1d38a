#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Jobs in containers, as an ordinary user: images are a squashfs file and a directory, made here from
# busybox and this machine's bash.

bats_require_minimum_version 1.5.0
load lib
load small_image

share=/shared/container-test

setup_file() {
    as_root_on login rm -rf "$share"
    as_root_on login install -d -m 1777 "$share"
    local root=$BATS_FILE_TMPDIR/root
    make_root "$root"
    pack "$root" "$share/image.sqsh"
    tar -C "$root" -c . | as_user bash -c "mkdir $share/directory && tar -C $share/directory -x"
    put "$PMIX_RING" "$share/pmix_ring"
}

teardown() {
    cancel_jobs
    as_root_on h1 rm -rf /etc/cdi /etc/subuid /etc/subgid
    reset_site
}

# site KEYS: a site.lua with these.
site() {
    site_lua <<< "return { $1 }" |
        as_root_on login sh -c 'mkdir -p /etc/batchai && cat > /etc/batchai/site.lua'
}

# job NODES IMAGE [MORE]: a job file that runs in the image; MORE are further properties.
job() {
    as_user bash -c "cat > $share/job.json" << JSON
{
  "properties": {
    "nodeCount": $1,
    "stdOutErrPathPrefix": "$share/logs",
    "containerSettings": {"imageSourceRegistry": {"image": "$2"}, "shmSize": "8m"},
    "environmentVariables": [{"name": "COLOUR", "value": "blue"}],
    ${3:-}
    "customToolkitSettings": {"commandLine": "true"}
  }
}
JSON
}

# step ARGUMENT…: srun with that job file, on h1 unless said otherwise.
step() { as_user srun -w h1 --job-json="$share/job.json" "$@"; }

# The job and its record in a store of this test's own.
with_store() { as_user env "BATCHAI_HOME=$share/store" "$@"; }

# Breaks when a task runs outside the image, with another id, without its mounts or variables.
@test "a step runs in the image as the user, with home, the job's variables and its own /dev" {
    job 1 "$share/image.sqsh"
    as_user touch file-at-home
    run step bash -c 'cat /etc/made-for; id -u; id -un; echo $COLOUR; ls ~/file-at-home
        echo dev=$(ls /dev); df -k /dev/shm; mount=$(grep " / " /proc/mounts); echo $mount; echo > /dev/null'
    echo "$output"
    [[ $status -eq 0 ]]
    [[ $output == *"made for the test"*20001*alice*blue*/home/alice/file-at-home* ]]
    [[ $output == *"8192"* && $output == *overlay*nosuid*nodev* ]]
    [[ $output != *fuse* && $output != *vda* ]]
    wait_until_clean h1
}

# Breaks when an image of enroot loses what the image set, so that its programs are not found.
@test "a file of enroot brings its variables, directory and entrypoint" {
    local root=$BATS_TEST_TMPDIR/enroot
    make_root "$root"
    mkdir -p "$root/opt/tool/bin" "$root/workspace"
    printf '#!/bin/sh\necho "the tool in $PWD, FLAVOUR=$FLAVOUR, $ENTRY"\n' > "$root/opt/tool/bin/tool"
    printf '#!/bin/sh\nENTRY="by $1" exec "$@"\n' > "$root/opt/tool/bin/enter"
    chmod +x "$root"/opt/tool/bin/*
    printf '%s\n' PATH=/opt/tool/bin:/bin:/usr/bin 'FLAVOUR=en root="x"' > "$root/etc/environment"
    cat > "$root/etc/rc" << 'RC'
# maintainer somebody

mkdir -p "/workspace" 2> /dev/null
cd "/workspace" && unset OLDPWD || exit 1

if [ -s /etc/rc.local ]; then
    . /etc/rc.local
fi

if [ $# -gt 0 ]; then
    exec 'enter' "$@"
else
    exec 'enter' 'bash'
fi
RC
    pack "$root" "$share/enroot.sqsh"
    # As for an image of a registry, the entrypoint is used where the site wants that.
    site 'image_entrypoint = true'
    job 1 "$share/enroot.sqsh" '"jobPreparation": {"commandLine": "tool"},'
    sed -e 's/"true"/"tool"/' < <(as_user cat "$share/job.json") | as_user bash -c "cat > $share/enroot.json"
    run --separate-stderr with_store "$PREFIX/bin/batchai" job create -n enroot -f "$share/enroot.json" --follow
    echo "$output"
    [[ $status -eq 0 && $output == *'the tool in /workspace, FLAVOUR=en root="x", by /bin/bash'* ]]
    run --separate-stderr with_store "$PREFIX/bin/batchai" job create -n dry -f "$share/enroot.json" --dry-run
    [[ $output == *FLAVOUR* && $output == */workspace* ]]
    with_store "$PREFIX/bin/batchai" job delete -n enroot --yes
    run step tool
    echo "$output"
    [[ $output == *"the tool in /workspace"* ]]
    wait_until_clean h1
}

# Breaks when root of a directory image is looked at differently, or its files are changed.
@test "an image that is a directory stays as it was" {
    job 1 "$share/directory"
    run step bash -c 'cat /etc/made-for; echo changed > /etc/made-for; cat /etc/made-for; rm /bin/df'
    echo "$output"
    [[ $status -eq 0 && $output == *"made for the test"*changed* ]]
    run as_user cat "$share/directory/etc/made-for"
    [[ $output == "made for the test" ]]
    as_user ls "$share/directory/bin/df"
    wait_until_clean h1
}

# Breaks when preparation is not root, its changes do not reach the ranks, or it fails where there
# is one user id only.
@test "what preparation installs as root is there for the ranks, which are the user" {
    job 2 "$share/image.sqsh" '"jobPreparation": {"commandLine":
        "id -u; touch /usr/installed && chown 33:33 /usr/installed; cat /etc/apt/apt.conf.d/99batchai"},'
    as_user sed -i 's|"commandLine": "true"|"commandLine": "id -u; ls /usr/installed"|' "$share/job.json"
    with_store batchai group create -n default -l local > /dev/null
    with_store batchai workspace create -n cw -l local > /dev/null
    with_store batchai experiment create -n ce -w cw > /dev/null
    run with_store batchai job create -f "$share/job.json" -n prepared -w cw -e ce -o json
    echo "$output"
    [[ $status -eq 0 ]]
    wait_until 60 nothing_is_queued
    logs=$(as_user find "$share/logs" -path '*prepared*' -name '*.txt')
    # shellcheck disable=SC2086
    run as_user tail -n +1 $logs
    echo "$output"
    [[ $output == *"job_prep"*0*'Sandbox::User "root"'* ]]
    [[ $output == *stdout.txt*20001*/usr/installed* ]]
    wait_until_clean h1
}

# Breaks when the container hides PMIx's directories or changes the uid that PMIx compares.
@test "ranks in containers are wired by PMIx on two hosts" {
    needs_pmix
    job 2 "$share/image.sqsh"
    local loader
    loader=$(ldd "$PMIX_RING" | grep -o '/lib64/ld[^ ]*')
    # The program brings its libraries: the image has none of PMIx.
    local libraries=$BATS_TEST_TMPDIR/lib
    mkdir -p "$libraries"
    ldd "$PMIX_RING" | grep -o '=> /[^ ]*' | cut -c4- | xargs cp -L -t "$libraries"
    cp -rL /usr/lib/x86_64-linux-gnu/pmix2/lib/pmix "$libraries/pmix"
    tar -C "$libraries" -c . | as_user bash -c "mkdir -p $share/lib && tar -C $share/lib -x"
    # The directory from which a step is started is there in the container.
    run "$MINICLUSTER" exec --cwd "$share" -- srun -N2 --ntasks-per-node=2 --mpi=pmix --job-json=job.json \
        env "PMIX_MCA_mca_base_component_path=$share/lib/pmix" \
        "$loader" --library-path "$share/lib" "$share/pmix_ring"
    echo "$output"
    [[ $status -eq 0 ]]
    lines_are 2 "$(grep ^rank <<< "$output")"
}

# Breaks when a second step mounts the writable layer once more, or the container ends with the step
# that made it.
@test "steps of a job share the container, which stays as long as one of them does" {
    job 1 "$share/image.sqsh"
    as_user bash -c "cat > $share/steps.sh" << SCRIPT
on() { until [ -e $share/\$1 ]; do sleep 0.1; done; }
export -f on
srun --overlap -n1 bash -c 'touch /usr/of-first $share/first; on second' &
on first
srun --overlap -n1 bash -c 'ls /usr/of-first; readlink /proc/self/ns/mnt; touch $share/second; on third; cat /etc/made-for' &
on second
srun --overlap -n1 bash -c 'readlink /proc/self/ns/mnt'
touch $share/third
wait
srun -n1 ls /usr/of-first
SCRIPT
    # The directory from which a step is started is there in the container.
    run "$MINICLUSTER" exec --cwd "$share" -- salloc -w h1 --job-json="$share/job.json" bash "$share/steps.sh"
    echo "$output"
    [[ $status -eq 0 && $output == *"made for the test"* ]]
    lines_are 2 "$(grep of-first <<< "$output")"
    lines_are 1 "$(grep '^mnt' <<< "$output" | sort -u)"
    wait_until_clean h1
}

# Breaks when a missing image lets the task run on the host, or a hook drains the node.
@test "an image that cannot be used ends the step with its reason" {
    job 1 "$share/image.sqsh"
    as_user bash -c "head -c 4000 $share/image.sqsh > $share/broken.sqsh"
    for change in "rm" "cp $share/broken.sqsh"; do
        as_user bash -c "cp $share/image.sqsh $share/used.sqsh"
        job 1 "$share/used.sqsh"
        # Gone or broken between submission and start.
        run as_user salloc -w h1 --job-json="$share/job.json" \
            bash -c "$change $share/used.sqsh; srun -n1 echo ran"
        echo "$output"
        [[ $status -ne 0 && $output == *"used.sqsh"* && $output != *$'\nran'* ]]
    done
    run as_user salloc -w h1 --job-json="$share/job.json" bash -c \
        "cp $share/image.sqsh $share/used.sqsh; echo >> \$BATCHAI_PLAN; srun -n1 echo ran"
    echo "$output"
    [[ $status -ne 0 && $output == *"changed since the job was submitted"* && $output != *$'\nran'* ]]
    wait_until_clean h1
    no_node_is_drained
    job 1 "$share/image.sqsh"
    step true
}

# Breaks when a link of the image is followed on the node, or a device or set-user-id file works.
@test "a hostile image reaches nothing outside of it" {
    local root=$BATS_TEST_TMPDIR/root
    make_root "$root"
    mknod "$root/usr/disk" b 254 0
    chmod 666 "$root/usr/disk"
    chmod 4755 "$root/usr/bin/busybox"
    mv "$root/etc" "$root/real"
    ln -s ../../../../../../../real "$root/etc"
    ln -s /etc/shadow "$root/real/group"
    ln -s ../../../../shared/container-test/escape/hosts "$root/real/hosts"
    pack "$root" "$share/hostile.sqsh"
    as_root_on login install -d -m 777 "$share/escape"
    job 1 "$share/hostile.sqsh"
    run step bash -c 'cat /etc/made-for; cat /usr/disk; id -u; grep -c . /etc/group; cat /etc/hosts'
    echo "$output"
    [[ $output == *"made for the test"*20001*h1* ]]
    [[ $output == *disk* && $output != *"uid=0"* ]]
    for target in "$share/escape" ../../../../../../.."$share/escape" home; do
        rm -r "${root:?}/home"
        ln -s "$target" "$root/home"
        pack "$root" "$share/hostile.sqsh"
        run step echo ran
        echo "$output"
        [[ $status -ne 0 && $output == *"/home in the image"* && $output != *$'\nran'* ]]
    done
    prints_nothing as_user ls -A "$share/escape"
    wait_until_clean h1
    no_node_is_drained
}

# Breaks when a container outlives one of the processes that it is made of.
@test "killing any process of a container ends the step and leaves nothing" {
    job 1 "$share/image.sqsh"
    for victim in batchai-node batchai-keeper squashfuse_ll slurmstepd; do
        step sleep 60 &
        wait_until 60 as_root_on h1 pgrep -x squashfuse_ll
        wait_until 60 as_root_on h1 pgrep -f 'sleep 60$'
        as_root_on h1 pkill -9 -x "$victim"
        as_user scancel -n sleep || true
        wait || true
        wait_until 60 nothing_is_queued
        wait_until_clean h1
    done
    wait_until 60 nodes_idle 4
    no_node_is_drained
    step true
}

# Breaks when the clean-up takes what may live for dead, or leaves what is dead.
@test "what an earlier run of the node left goes with the next use, and nobody else's" {
    local running
    job 1 "$share/image.sqsh"
    running=$(as_user sbatch --parsable -w h1 -n1 --oversubscribe -o none --job-json="$share/job.json" \
        --wrap 'srun sh -c "touch \$AZ_BATCHAI_JOB_TEMP/alive; sleep 600"')
    wait_until 60 as_root_on h1 sh -c "ls /tmp/batchai-20001/*/alive"
    # 900001: the node has crashed since; 900002 may be running; 900003 and 4 have claimed nothing for an
    # hour, as has the job that runs.
    as_user_on h1 bash -c 'umask 077
        boot=$(cat /proc/sys/kernel/random/boot_id)
        cd /tmp/batchai-20001
        for id in 900001:before-the-crash 900002:$boot 900003:$boot 900004:$boot; do
            mkdir -p container-${id%:*}/upper/kept
            echo container-${id%:*} > by-job/${id%:*}
            printf %s "${id#*:}" > by-job/${id%:*}.boot
        done
        touch -d "1 hour ago" by-job/{900003,900004,'"$running"'}.boot'
    step --oversubscribe true
    run as_root_on h1 ls /tmp/batchai-20001
    echo "$output"
    [[ $output != *900001* && $output == *900002* && $output != *900003* && $output != *900004* ]]
    as_root_on h1 sh -c "ls /tmp/batchai-20001/*/alive /tmp/batchai-20001/by-job/$running"
    as_user scancel "$running"
    as_root_on h1 bash -c "rm -r /tmp/batchai-20001/container-900002 /tmp/batchai-20001/by-job/900002*"
    wait_until 60 nothing_is_queued
    wait_until_clean h1
}

# Breaks when Slurm does not find the site's prolog of tasks in a container, and ends each task for it.
@test "the site's prolog of tasks runs in the container" {
    as_user scontrol show config | grep -q '^TaskProlog *= */etc/site/task_prolog$' ||
        skip "this cluster has none (minicluster up --with prolog)"
    job 1 "$share/image.sqsh"
    run step sh -c 'echo "$SITE_TASK_PROLOG in $(cat /etc/made-for)"'
    echo "$output"
    [[ $status -eq 0 && $output == *"1 in made for the test"* ]]
}

# Breaks when a device comes without its file, or a file that is wrong goes unnoticed.
@test "CDI files bring devices, mounts and variables" {
    job 1 "$share/image.sqsh"
    as_root_on h1 bash -c 'mkdir -p /etc/cdi && cat > /etc/cdi/test.json' << 'JSON'
{"cdiVersion": "0.6.0", "kind": "example.com/harmless",
 "containerEdits": {"env": ["HARMLESS=yes"]},
 "devices": [{"name": "0", "containerEdits": {
   "deviceNodes": [{"path": "/dev/harmless0", "hostPath": "/dev/zero"}],
   "mounts": [{"hostPath": "/etc/hostname", "containerPath": "/opt/vendor/name", "options": ["ro"]}]}}]}
JSON
    run step bash -c 'echo $HARMLESS; stat -c %t,%T /dev/harmless0; cat /opt/vendor/name; echo > /opt/vendor/name'
    echo "$output"
    [[ $output == *yes*1,5*h1* && $output == *"Read-only"* ]]
    as_root_on h1 bash -c 'echo "{" > /etc/cdi/test.json'
    run step echo ran
    echo "$output"
    [[ $status -ne 0 && $output == *"/etc/cdi/test.json"* && $output != *$'\nran'* ]]
}

# Breaks when YAML is read differently, what hooks are for is not done, or a job sees another's
# devices.
@test "CDI files in YAML bring hooks, and a job has the devices that Slurm gave it" {
    job 1 "$share/directory"
    as_user bash -c "mkdir -p $share/directory/sbin && cp /sbin/ldconfig $share/directory/sbin/"
    local library
    library=$(readlink -f "$(ldd /bin/bash | grep -o '/[^ ]*libtinfo[^ ]*')")
    as_root_on h1 bash -c 'mkdir -p /etc/cdi && sed "s|LIBRARY|$1|" > /etc/cdi/test.yaml' cdi "$library" << 'YAML'
---
cdiVersion: 0.7.0
kind: example.com/widget
devices:
    - {name: "0", containerEdits: {deviceNodes: [{path: /dev/widget0, hostPath: /dev/zero}]}}
    - {name: "1", containerEdits: {deviceNodes: [{path: /dev/widget1, hostPath: /dev/full}]}}
containerEdits:
    mounts:
        - hostPath: LIBRARY
          containerPath: /opt/vendor/lib/libwidget.so.1.2
          options: [ro, nosuid, nodev, rbind, rprivate]
    hooks:
        - hookName: createContainer
          path: /usr/bin/nvidia-cdi-hook
          args: [nvidia-cdi-hook, create-symlinks, --link, widget.so.1::/usr/lib/widget.so]
        - hookName: createContainer
          path: /usr/bin/nvidia-cdi-hook
          args: [nvidia-cdi-hook, update-ldcache, --folder, /opt/vendor/lib]
        - hookName: createContainer
          path: /bin/sh
          args:
            - sh
            - -c
            - |
              bundle=$(sed -n 's/.*"bundle": *"\([^"]*\)".*/\1/p')
              root=$(sed -n 's/.*"path": *"\([^"]*\)".*/\1/p' "$bundle/config.json")
              echo "$WORD" > "$root/usr/by-hook"
          env:
            - WORD=hooked
YAML
    local look='ls /dev; busybox readlink /usr/lib/widget.so; /sbin/ldconfig -p; cat /usr/by-hook'
    run step bash -c "$look"
    echo "$output"
    [[ $status -eq 0 && $output == *widget0*widget1*widget.so.1*"=> /opt/vendor/lib/libtinfo"*hooked ]]
    # The first widget is another job's.
    site "exclusive = false"
    run as_user salloc -Q -w h1 -n1 --gres=widget:1 env -i "PATH=$PATH" HOME=/home/alice \
        timeout 150 srun -w h1 -n1 --gres=widget:1 --job-json="$share/job.json" bash -c "$look"
    echo "$output"
    [[ $status -eq 0 && $output == *widget1*hooked && $output != *widget0* ]]
    as_root_on h1 sed -i 's/echo "$WORD"/echo "no $WORD" >\&2; exit 3; echo/' /etc/cdi/test.yaml
    run step echo ran
    echo "$output"
    [[ $status -ne 0 && $output != *$'\nran'* ]]
    [[ $output == *"/etc/cdi/test.yaml: the hook /bin/sh failed with exit code 3: no hooked"* ]]
    wait_until_clean h1
}

# Breaks when what the site binds is missing, can be changed, or a node that lacks it is not named.
@test "containers show what the site wants, and say which of it a node lacks" {
    job 1 "$share/image.sqsh"
    as_user bash -c "mkdir -p $share/site && echo of the site > $share/site/file"
    site "container_binds = { '$share/site:/opt/site:ro', '/nowhere/at/all:optional' }"
    run step bash -c 'cat /opt/site/file; touch /opt/site/file; ls /nowhere'
    echo "$output"
    [[ $output == *"of the site"*"Read-only"*"/nowhere"* ]]
    site "container_binds = { '/nowhere/at/all:/opt/site' }"
    run step echo ran
    echo "$output"
    [[ $status -ne 0 && $output == *"node h1: /nowhere/at/all"*"container_binds of site.lua"* ]]
    site "container_binds = { 'relative' }"
    run step echo ran
    echo "$output"
    [[ $status -ne 0 && $output == *site.lua*'container_binds: entry "relative"'* ]]
}

# Breaks when settings of the host's software reach programs of the image.
@test "the host's library paths stay outside, the job's come in" {
    job 1 "$share/image.sqsh"
    run as_user env LD_LIBRARY_PATH=/nowhere MINE=1 srun -w h1 --job-json="$share/job.json" \
        bash -c 'echo "[$LD_LIBRARY_PATH]$MINE$PMIX_MCA_gds"'
    echo "$output"
    [[ $output == *"[]1hash"* ]]
}

# Breaks when the range of ids is not used, is lost for ranks, or files of other ids stay behind.
@test "with subordinate ids programs inside have any id, and their files are removed" {
    job 1 "$share/image.sqsh"
    as_root_on h1 bash -c 'echo alice:200000:65536 | tee /etc/subuid > /etc/subgid'
    as_user bash -c "cat > $share/ids.sh" << 'SCRIPT'
BATCHAI_IDENTITY=root srun -n1 sh -c 'mkdir -m 700 /usr/of-33; touch /usr/of-33/file; chown -R 33:34 /usr/of-33
    stat -c %u:%g /usr/of-33; touch $AZ_BATCHAI_JOB_TEMP/mine; chown 5 $AZ_BATCHAI_JOB_TEMP/mine
    grep Seccomp: /proc/self/status'
srun -n1 sh -c 'id -u; stat -c %u:%g /usr/of-33; ls /usr/of-33'
SCRIPT
    run as_user salloc -w h1 --job-json="$share/job.json" bash "$share/ids.sh"
    echo "$output"
    [[ $output == *33:34*Seccomp:*0*20001*33:34* && $output == *"Permission denied"* ]]
    wait_until_clean h1
    wait_until 60 prints_nothing as_root_on h1 find /tmp -uid 200004 -o -uid 200032
}
