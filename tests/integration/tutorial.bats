#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The tutorial of Batch AI, command by command, with its own job.json: only the registry's address is
# put before the image's name. The image of that name is made here of busybox: its `apt` and `pip`
# note what they are asked for, and its `python3` is a shell, which runs the shell script that stands
# where the tutorial's training script is.

bats_require_minimum_version 1.5.0
load lib
load registry

registry=login:5000

setup_file() {
    make_home tutorial
    as_user mkdir "$HOME_DIR/shares"
    registry tutorial 5000
    make_image
    push "$HOME_DIR/layout:made" "$registry/tensorflow/tensorflow:1.8.0-gpu" --dest-tls-verify=false
    write_home site.lua << LUA
return {
    insecure_registries = { "$registry" },
    vm_sizes = { STANDARD_NC6 = { partition = "main", gres = "widget:1" } },
    storage_accounts = {
        mystorageaccount = { file_share_directory = "$HOME_DIR/shares/%s" },
    },
}
LUA
    sed "s|\"tensorflow/tensorflow|\"$registry/tensorflow/tensorflow|" \
        "$SOURCE/tests/unit/job/data/tutorial.json" | write_home job.json
}

teardown_file() {
    cancel_jobs
    end_registries
    remove_home
}

make_image() {
    as_user bash -c '
        set -e
        root=$(mktemp -d)
        mkdir -p "$root"/{bin,etc,tmp,proc,sys,dev,root,usr/bin,usr/lib}
        cp /usr/bin/busybox "$root/bin"
        for name in sh cat id ls mkdir sleep touch; do ln -s busybox "$root/bin/$name"; done
        ln -s ../../bin/busybox "$root/usr/bin/env"
        printf "#!/bin/sh\necho \"apt \$* as \$(id -u)\"; echo \"\$*\" >> /usr/lib/of-apt\n[ \"\$1\" != update ]\n" > "$root/usr/bin/apt"
        printf "#!/bin/sh\necho \"pip \$* as \$(id -u)\"; shift; echo \"\$*\" > /usr/lib/of-pip\n" > "$root/usr/bin/pip"
        printf "#!/bin/sh\nexec /bin/sh \"\$@\"\n" > "$root/usr/bin/python3"
        chmod 755 "$root"/usr/bin/*
        umoci init --layout "$1/layout"
        umoci new --image "$1/layout:made"
        umoci insert --rootless --image "$1/layout:made" "$root" /
        umoci config --image "$1/layout:made" --config.env CUDA_VERSION=9.0.176
        rm -rf "$root"' - "$HOME_DIR" > /dev/null
}

# What the tutorial types; its $PATH has the drop-in.
az() {
    as_user bash -c 'export BATCHAI_HOME=$1/records BATCHAI_SITE=$1/site.lua PATH=$2:$PATH
        cd "$1"; shift 2; exec az "$@"' az "$HOME_DIR" "$PREFIX/libexec/batchai/az-drop-in" "$@"
}

group=(--resource-group batchai.horovod --workspace batchaidev)

# Breaks when any command or setting of the tutorial does something else than the tutorial says.
@test "the tutorial's job runs in its container from the first command to the last" {
    az group create --name batchai.horovod --location eastus -o none
    az batchai workspace create --resource-group batchai.horovod --workspace batchaidev -o none
    az batchai experiment create --resource-group batchai.horovod --workspace batchaidev --name cifar -o none
    az batchai cluster create "${group[@]}" --name nc6cluster --vm-priority dedicated \
        --vm-size Standard_NC6 --target 4 --generate-ssh-keys -o none
    wait_until 30 cluster_is_steady
    # `az storage …`: the share is a directory of the site.
    as_user mkdir -p "$HOME_DIR/shares/myshare/cifar"
    as_user bash -c "cat > $HOME_DIR/shares/myshare/cifar/cifar_cnn_distributed.py" << 'SCRIPT'
dir=${1#--dir=}
echo "$(cat /usr/lib/of-pip) in $CUDA_VERSION"
echo "rank $RANK of $WORLD_SIZE on $SLURMD_NODENAME as $(id -u) with $(cat /usr/lib/of-apt)"
if [ "$RANK" = 0 ]; then
    mkdir -p "$dir/saved_models"
    touch "$dir/saved_models/keras_cifar10_trained_model.h5"
fi
while [ ! -e "$dir/seen" ]; do sleep 0.2; done
SCRIPT
    az batchai job create --cluster nc6cluster --name cifar_distributed "${group[@]}" \
        --experiment cifar --config-file job.json --storage-account-name mystorageaccount -o none
    run az batchai job show --experiment cifar --name cifar_distributed "${group[@]}" --query executionState
    [[ $output == '"queued"' || $output == '"running"' ]]
    wait_until 60 nodes_run
    as_user touch "$HOME_DIR/shares/myshare/cifar/seen"
    wait_until 60 job_succeeded
    run az batchai job file list --experiment cifar --job cifar_distributed "${group[@]}" --output table
    echo "$output"
    [[ $(tail -n +3 <<< "$output" | awk '{print $1}' | sort | xargs) == "$(
        { printf '%s\n' ranks stderr.txt stdout.txt
          printf '%s\n' {execution-,std{err,out}-job_prep-}h{1..4} | sed 's/^e.*/&.log/; s/^s.*/&.txt/'; } |
            sort | xargs)" ]]
    run --separate-stderr az batchai job file stream --experiment cifar --file-name stdout.txt \
        --job cifar_distributed "${group[@]}"
    echo "$output"
    for rank in 0 1 2 3; do
        [[ $output == *"rank $rank of 4 on h$((rank + 1)) as 20001 with update"* ]]
    done
    [[ $(grep -c -x 'keras horovod in 9.0.176' <<< "$output") -eq 4 ]]
    # Preparation went on after `apt update` had failed, as root.
    run --separate-stderr az batchai job file stream --experiment cifar --file-name stdout-job_prep-h3.txt \
        --job cifar_distributed "${group[@]}"
    [[ $output == $'apt update as 0\napt install mpi-default-dev mpi-default-bin -y as 0\npip install keras horovod as 0' ]]
    # The logs are where stdOutErrPathPrefix says, and the model where the script puts it.
    as_user bash -c "ls $HOME_DIR/shares/myshare/cifar/*/batchai.horovod/workspaces/batchaidev/experiments/cifar/jobs/cifar_distributed/*/stdouterr/stdout.txt"
    as_user ls "$HOME_DIR/shares/myshare/cifar/saved_models/keras_cifar10_trained_model.h5"
    az batchai cluster resize --name nc6cluster "${group[@]}" --target 0
    az group delete --name batchai.horovod --yes
    run -5 az batchai job show --experiment cifar --name cifar_distributed "${group[@]}"
}

cluster_is_steady() {
    [[ $(az batchai cluster show --name nc6cluster "${group[@]}" --output table | tail -n 1) =~ ^nc6cluster\ +batchai.horovod\ +batchaidev\ +STANDARD_NC6\ +steady\ +4\ +0\ +0\ +0\ +0$ ]]
}
nodes_run() {
    [[ $(az batchai cluster show --name nc6cluster "${group[@]}" --query nodeStateCounts.runningNodeCount) == 4 ]]
}
job_succeeded() {
    [[ $(az batchai job show --experiment cifar --name cifar_distributed "${group[@]}" --query executionState) == '"succeeded"' ]]
}

# Breaks when a stronger answer than the tutorial's own commands is needed for what is not there.
@test "what of the tutorial needs Azure itself is answered in words" {
    run -2 az storage share create --name myshare --account-name mystorageaccount
    [[ $output == *"not supported yet"* ]]
}
