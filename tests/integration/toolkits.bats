#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The example of each toolkit, on four hosts: what runs where, with which arguments and variables,
# and into which files it prints. PyTorch and TensorFlow are the real ones; for the others see
# toolkits/stand_in.py.

bats_require_minimum_version 1.5.0
load lib

share=myshare/toolkits

setup_file() {
    make_home toolkits
    as_user mkdir -p "$HOME_DIR/$share/data" "$HOME_DIR/$share/config" "$HOME_DIR/bin"
    write_home site.lua << LUA
return {
  python_interpreter = "$PYTHON",
  environment = { PATH = "$HOME_DIR/bin:/usr/local/bin:/usr/bin:/bin" },
  storage_accounts = {
    mystorageaccount = { file_share_directory = "$HOME_DIR/%s" },
  },
}
LUA
    local program
    for program in digits_pytorch.py digits_tensorflow.py; do
        write_home "$share/$program" < "$SOURCE/examples/toolkits/$program"
    done
    for program in "$share"/{train_mnist,ConvNet_CIFAR10_DataAug_Distributed,resnet50_trainer}.py \
        bin/{cntk,caffe}; do
        write_home "$program" < "$SOURCE/tests/integration/toolkits/stand_in.py"
        as_user chmod +x "$HOME_DIR/$program"
    done
    # All wait in Slurm's queue together, in the order in which the tests wait for them.
    for program in pytorch tensorflow chainer cntk cntk-brainscript caffe caffe2; do
        write_home "$program.json" < "$SOURCE/examples/toolkits/$program.json"
        create "$program"
    done
}

teardown_file() {
    cancel_jobs
    wait_until 60 nothing_is_queued
    remove_home
}

batchai() { batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua" "$@"; }

# create NAME: submits the example of that name.
create() {
    batchai job create --name "$1" --config-file "$1.json" --storage-account-name mystorageaccount --output none
}

# ends_well NAME: the job's last words are shown if it does not.
ends_well() {
    run batchai job wait --name "$1"
    echo "$output"
    [[ $status -eq 0 ]]
}

# files_are NAME FILE…: the job's logs, besides those of the launcher and the directory of the ranks.
files_are() {
    local files
    files=$(batchai job file list --job "$1" --query '[].name' --output tsv) || return
    diff <(printf '%s\n' ranks "${@:2}" | sort) <(grep -v '^execution' <<< "$files" | sort)
}

# each_rank JQ_FILTER TEXT: every line of TEXT, which is JSON, passes the filter.
each_rank() { jq -se "all(.[]; $1)" <<< "$2"; }

# ranks_are PLACES TEXT: the ranks that print TEXT, in order, each as "RANK HOST", and each the one that
# PMIx, or PMI-2, tells MPI of.
ranks_are() {
    local places rank=PMIX_RANK
    [[ $(slurm_mpi) == pmix ]] || rank=PMI_RANK
    places=$(jq -rs 'map("\(.RANK) \(.host)") | sort | join(" ")' < <(with_node_names <<< "$2")) || return
    [[ $places == "$1" ]] && each_rank ".$rank == .RANK" "$2"
}

# Breaks when a rank of PyTorch is given a wrong number or place to meet, or another one's file.
@test "PyTorch trains on four hosts, with a file for each rank" {
    wait_past_gloo pytorch
    files_are pytorch std{out,err}-{0,1,2,3}.txt
    local rank
    for rank in 0 1 2 3; do
        run --separate-stderr output_of pytorch "stdout-$rank.txt"
        echo "$output"
        [[ $(with_node_names <<< "${lines[0]}") == "rank $rank of 4 on h$((rank + 1))" ]]
        [[ ${lines[1]} =~ ^"Test accuracy: "(0\.9[5-9]|1\.0) ]]
        [[ ${#lines[@]} -eq 2 ]]
    done
}

@test "TensorFlow trains in one process" {
    ends_well tensorflow
    files_are tensorflow std{out,err}-wk-0.txt
    run --separate-stderr output_of tensorflow stdout-wk-0.txt
    echo "$output"
    [[ $output =~ ^"Test accuracy: "(0\.9|1\.0) ]]
}

# Breaks when the ranks of ChainerMN are not those that PMIx tells MPI of.
@test "Chainer's script runs on two ranks of each host" {
    ends_well chainer
    files_are chainer stdout.txt stderr.txt
    run --separate-stderr output_of chainer
    echo "$output"
    ranks_are "0 h1 1 h1 2 h2 3 h2 4 h3 5 h3 6 h4 7 h4" "$output"
    each_rank '.program == "train_mnist.py" and .WORLD_SIZE == "8"
        and .arguments[0:2] == ["--communicator=pure_nccl", "--gpu"]
        and (.arguments[2] | test("^--out=/.*/outputs/Models$"))' "$output"
}

@test "CNTK runs a script, or its own program for BrainScript, on each host" {
    ends_well cntk
    files_are cntk stdout.txt stderr.txt
    run --separate-stderr output_of cntk
    echo "$output"
    ranks_are "0 h1 1 h2 2 h3 3 h4" "$output"
    each_rank '.program == "ConvNet_CIFAR10_DataAug_Distributed.py"
        and (.arguments[0] | test("^--datadir=/.*/toolkits/data$"))
        and (.arguments[1] | test("^--outputdir=/.*/outputs/Models$"))
        and .arguments[2:] == ["--quantized_bits=32"]' "$output"
    ends_well cntk-brainscript
    files_are cntk-brainscript stdout.txt stderr.txt
    run --separate-stderr output_of cntk-brainscript
    echo "$output"
    ranks_are "0 h1 1 h2 2 h3 3 h4" "$output"
    each_rank '.program == "cntk"
        and (.arguments[0] | test("^configFile=/.*/toolkits/config/ConvMNIST.cntk$"))
        and (.arguments[1] | test("^RootDir=/.*/toolkits/config$"))
        and (.arguments[2] | test("^OutputDir=/.*/outputs/Models$"))
        and .arguments[3:] == ["parallelTrain=true"]' "$output"
}

@test "Caffe trains with its solver's configuration" {
    ends_well caffe
    files_are caffe stdout.txt stderr.txt
    run --separate-stderr output_of caffe
    echo "$output"
    lines_are 1 "$output"
    each_rank '.program == "caffe" and .arguments[0:2] == ["train", "-solver"]
        and (.arguments[2] | test("/toolkits/config/lenet_solver.prototxt$"))
        and .arguments[3:] == ["-gpu=all"]' "$output"
}

# Breaks when a process has another's index, or the directory in which they meet is not shared.
@test "Caffe2 runs one process on each host, and they meet in the shared directory" {
    ends_well caffe2
    files_are caffe2 std{out,err}-{0,1,2,3}.txt
    local index
    for index in 0 1 2 3; do
        run --separate-stderr output_of caffe2 "stdout-$index.txt"
        echo "$output"
        lines_are 1 "$output"
        each_rank ".AZ_BATCHAI_TASK_INDEX == \"$index\" and .host == \"h$((index + 1))\" and .met == 4
            and .arguments[0:2] == [\"--num_shards=4\", \"--shard_id=$index\"]
            and (.arguments[2] | test(\"^--file_store_path=/.*/shared$\"))" "$(with_node_names <<< "$output")"
    done
}
