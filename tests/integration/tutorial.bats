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

# in_tutorial SHELL_TEXT: in the directory of the tutorial's user, whose $PATH has the drop-in.
in_tutorial() {
    # shellcheck disable=SC2016 # for the inner shell
    as_user bash -c 'export BATCHAI_HOME=$1/records BATCHAI_SITE=$1/site.lua PATH=$2:$PATH
        cd "$1" && eval "$3"' tutorial "$HOME_DIR" "$PREFIX/libexec/batchai/az-drop-in" "$1"
}

# Breaks when any of the tutorial's 17 commands, which are here as the tutorial has them, does
# something else than the tutorial says, or prints something else than it shows.
@test "the tutorial's 17 commands run word for word, and do and print what it says" {
    run -0 in_tutorial 'az group create --name batchai.horovod --location eastus'
    jq -e 'keys == ["id", "location", "managedBy", "name", "properties", "tags"] and .location == "eastus"' <<< "$output"
    run -0 in_tutorial 'az batchai workspace create --resource-group batchai.horovod --workspace batchaidev '
    jq -e '.name == "batchaidev" and .resourceGroup == "batchai.horovod" and .location == "eastus"' <<< "$output"
    run -0 in_tutorial 'az batchai experiment create --resource-group batchai.horovod --workspace batchaidev --name cifar '
    jq -e '.name == "cifar"' <<< "$output"
    run -0 --separate-stderr in_tutorial 'az batchai cluster create --resource-group batchai.horovod --workspace batchaidev --name nc6cluster --vm-priority dedicated  --vm-size Standard_NC6 --target 4 --generate-ssh-keys'
    jq -e '.vmSize == "STANDARD_NC6" and .scaleSettings.manual.targetNodeCount == 4' <<< "$output"
    wait_until 60 cluster_is_steady
    run -0 in_tutorial 'az storage account create --resource-group batchai.horovod --name mystorageaccount --location eastus --sku Standard_LRS'
    jq -e '.name == "mystorageaccount" and .sku.name == "Standard_LRS"' <<< "$output"
    run -0 in_tutorial 'az storage share create --name myshare --account-name mystorageaccount'
    [[ $output == $'{\n  "created": true\n}' ]]
    run -0 in_tutorial 'az storage directory create --name cifar --share-name myshare --account-name mystorageaccount'
    [[ $output == $'{\n  "created": true\n}' ]]
    write_home cifar_cnn_distributed.py << 'SCRIPT'
dir=${1#--dir=}
echo "$(cat /usr/lib/of-pip) in $CUDA_VERSION"
echo "rank $RANK of $WORLD_SIZE on $SLURMD_NODENAME as $(id -u) with $(cat /usr/lib/of-apt)"
if [ "$RANK" = 0 ]; then
    mkdir -p "$dir/saved_models"
    echo weights > "$dir/saved_models/keras_cifar10_trained_model.h5"
fi
while [ ! -e "$dir/seen" ]; do sleep 0.2; done
SCRIPT
    run -0 in_tutorial 'az storage file upload --path cifar --share-name myshare --source cifar_cnn_distributed.py --account-name mystorageaccount'
    [[ -z $output ]]
    as_user cmp "$HOME_DIR/cifar_cnn_distributed.py" "$HOME_DIR/shares/myshare/cifar/cifar_cnn_distributed.py"
    run -0 --separate-stderr in_tutorial 'az batchai job create --cluster nc6cluster --name cifar_distributed --resource-group batchai.horovod --workspace batchaidev --experiment cifar --config-file job.json --storage-account-name mystorageaccount'
    jq -e '.name == "cifar_distributed" and .toolType == "horovod" and .nodeCount == 4' <<< "$output"
    run -0 in_tutorial 'az batchai job show --experiment cifar --name cifar_distributed --resource-group batchai.horovod --workspace batchaidev --query "executionState"'
    [[ $output == '"queued"' || $output == '"running"' ]]
    wait_until 60 nodes_run
    as_user touch "$HOME_DIR/shares/myshare/cifar/seen"
    wait_until 60 job_succeeded
    run -0 in_tutorial 'az batchai job file list --experiment cifar --job cifar_distributed --resource-group batchai.horovod --workspace batchaidev --output table'
    echo "$output"
    [[ ${lines[0]} =~ ^Name\ +Type\ +Size\ +Modified$ ]]
    [[ $(tail -n +3 <<< "$output" | awk '{print $1}' | sort | xargs) == "$(
        { printf '%s\n' ranks stderr.txt stdout.txt
          printf '%s\n' {execution-,std{err,out}-job_prep-}h{1..4} | sed 's/^e.*/&.log/; s/^s.*/&.txt/'; } |
            sort | xargs)" ]]
    run -0 --separate-stderr in_tutorial 'az batchai job file stream --experiment cifar --file-name stdout.txt --job cifar_distributed --resource-group batchai.horovod --workspace batchaidev'
    echo "$output"
    for rank in 0 1 2 3; do
        [[ $output == *"rank $rank of 4 on h$((rank + 1)) as 20001 with update"* ]]
    done
    [[ $(grep -c -x 'keras horovod in 9.0.176' <<< "$output") -eq 4 ]]
    # Preparation went on after `apt update` had failed, as root.
    run -0 --separate-stderr in_tutorial 'az batchai job file stream --experiment cifar --file-name stdout-job_prep-h3.txt --job cifar_distributed --resource-group batchai.horovod --workspace batchaidev'
    [[ $output == $'apt update as 0\napt install mpi-default-dev mpi-default-bin -y as 0\npip install keras horovod as 0' ]]
    # The logs are where stdOutErrPathPrefix says, and the model where the script puts it.
    as_user bash -c "ls $HOME_DIR/shares/myshare/cifar/*/batchai.horovod/workspaces/batchaidev/experiments/cifar/jobs/cifar_distributed/*/stdouterr/stdout.txt"
    run -0 --separate-stderr in_tutorial 'az storage file download --path cifar/saved_models/keras_cifar10_trained_model.h5 --share-name myshare --account-name mystorageaccount'
    jq -e '.name == "keras_cifar10_trained_model.h5" and .content == null' <<< "$output"
    [[ $(as_user cat "$HOME_DIR/keras_cifar10_trained_model.h5") == weights ]]
    run -0 --separate-stderr in_tutorial 'az batchai cluster resize --name nc6cluster --resource-group batchai.horovod --target 0 --workspace batchaidev'
    jq -e '.scaleSettings.manual.targetNodeCount == 0' <<< "$output"
    # The last command asks, which it can do only on a terminal.
    run -2 in_tutorial 'az group delete --name batchai.horovod < /dev/null'
    run -0 in_tutorial 'script -qec "az group delete --name batchai.horovod" /dev/null <<< y'
    [[ $output == *"Are you sure you want to perform this operation? (y/n):"* ]]
    run -5 in_tutorial 'az batchai job show --experiment cifar --name cifar_distributed --resource-group batchai.horovod --workspace batchaidev'
    # The outputs of the job are not the group's.
    as_user test -f "$HOME_DIR/shares/myshare/cifar/saved_models/keras_cifar10_trained_model.h5"
}

cluster_is_steady() {
    [[ $(in_tutorial 'az batchai cluster show --name nc6cluster --workspace batchaidev --resource-group batchai.horovod --output table' | tail -n 1) =~ ^nc6cluster\ +batchai.horovod\ +batchaidev\ +STANDARD_NC6\ +steady\ +4\ +0\ +0\ +0\ +0$ ]]
}
nodes_run() {
    [[ $(in_tutorial 'az batchai cluster show --name nc6cluster --workspace batchaidev --resource-group batchai.horovod --query "nodeStateCounts"') == '{
  "idleNodeCount": 0,
  "leavingNodeCount": 0,
  "preparingNodeCount": 0,
  "runningNodeCount": 4,
  "unusableNodeCount": 0
}' ]]
}
job_succeeded() {
    [[ $(in_tutorial 'az batchai job show --experiment cifar --name cifar_distributed --resource-group batchai.horovod --workspace batchaidev --query "executionState"') == '"succeeded"' ]]
}
