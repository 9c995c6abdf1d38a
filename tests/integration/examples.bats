#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The examples as their README files tell to run them: files into the share, `batchai job create`.

bats_require_minimum_version 1.5.0
load lib

gone_node=h4

each_rank_is_on_its_host() {
    local rank
    for rank in 0 1 2 3; do with_node_names <<< "$1" | grep -x "rank $rank of 4 on h$((rank + 1))"; done
}

setup_file() {
    make_home examples
    as_user mkdir -p "$HOME_DIR/myshare/digits" "$HOME_DIR/myshare/cifar"
    write_home site.lua << LUA
return {
  python_interpreter = "$PYTHON",
  environment = { PYTHONPATH = "$PREFIX/lib/batchai/python" },
  storage_accounts = {
    mystorageaccount = { file_share_directory = "$HOME_DIR/%s" },
  },
}
LUA
}

teardown_file() {
    remove_home
    # Slurm 22.05 takes some cores of a node that a job has lost for used until it counts anew.
    as_root_on login scontrol reconfigure
    wait_until 60 nodes_idle 4
}

teardown() {
    cancel_jobs
    # A test that failed between the death of a host and its return must not take the node from all
    # the suites that follow.
    host_lives h1
}

# batchai WORDS…: in the suite's own home and site; standard input passes through.
batchai() { batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua" "$@"; }

# copy EXAMPLE FILE DIRECTORY: a file of an example to a directory of HOME_DIR.
copy() { write_home "$3/$2" < "$SOURCE/examples/$1/$2"; }

# submit NAME EXAMPLE FILE [FILTER]: the example's job file, its interpreter in the preparation
# being the one that has the packages.
submit() {
    jq --arg python "$PYTHON" ".properties.jobPreparation.commandLine |= sub(\"^python3 \"; \$python + \" \")
        | ${4:-.}" "$SOURCE/examples/$2/$3" | write_home "$1.json"
    batchai job create --name "$1" --config-file "$1.json" \
        --storage-account-name mystorageaccount --output none
}

# Breaks when gradients, the broadcast or the shards of the data are wrong: one rank's share of the
# data does not reach this accuracy, and the script itself fails below it.
@test "the digits example reaches 95 % test accuracy on four ranks" {
    copy digits-torch digits_distributed.py myshare/digits
    submit digits digits-torch job.json
    run batchai job wait --name digits
    echo "$output"
    [[ $status -eq 0 ]]
    run --separate-stderr output_of digits
    echo "$output"
    each_rank_is_on_its_host "$output"
    local accuracy
    accuracy=$(sed -n 's/^Test accuracy: \([0-9.]*\).*/\1/p' <<< "$output")
    awk -v accuracy="$accuracy" 'BEGIN { exit !(accuracy >= 0.95 && accuracy <= 1) }'
}

# Breaks when the check of the accuracy is for show: the same job with an accuracy out of reach.
@test "the digits example fails when the accuracy is not reached" {
    copy digits-torch digits_distributed.py myshare/digits
    submit unreachable digits-torch job.json \
        '.properties.horovodSettings.commandLineArgs = "--epochs=1 --require-accuracy=0.999"'
    run batchai job wait --name unreachable
    echo "$output"
    [[ $status -eq 1 ]]
    run batchai job show --name unreachable --query 'executionInfo.errors[0]'
    echo "$output"
    jq -e '.code == "JobFailed" and any(.details[]; .name == "Rank" and .value == "0")
           and any(.details[]; .value == "the test accuracy is below 0.999")' <<< "$output"
}

# Breaks when the ranks of torch.distributed do not meet at the port that they are given, or
# DistributedDataParallel does not reduce their gradients.
@test "the DistributedDataParallel example reaches 95 % test accuracy on four ranks" {
    copy digits-ddp digits_ddp.py myshare/digits
    submit ddp digits-ddp job.json
    run batchai job wait --name ddp
    echo "$output"
    [[ $status -eq 0 ]]
    run --separate-stderr output_of ddp
    echo "$output"
    each_rank_is_on_its_host "$output"
    [[ $output == *"Test accuracy: 0.9"* || $output == *"Test accuracy: 1"* ]]
}

has_printed() { batchai job logs "$1" 2> /dev/null | grep "^$2" > /dev/null; }
slurm_id_of() { batchai job show --name "$1" --query slurmJobId --output tsv; }

# Breaks when the ranks are not told of the pre-emption, or do not go on where they stopped.
@test "the checkpoint example loses no step when it is pre-empted and run again" {
    local stopped
    copy digits-checkpoint digits_checkpoint.py myshare/digits
    submit checkpoint digits-checkpoint job.json \
        '.properties.horovodSettings.commandLineArgs += " --pause=0.2 --epochs=2"
            | .properties.slurm = {partition: "requeued"}'
    wait_until 90 has_printed checkpoint "starts at epoch 0, step 0"
    as_user sbatch --quiet --partition=urgent --exclusive --nodes=4 --output=/dev/null --wrap 'sleep 2'
    wait_until 60 has_printed checkpoint "stops after epoch"
    stopped=$(batchai job logs checkpoint | sed -n 's/^stops after //p')
    wait_until 60 state_is checkpoint queued
    start_again "$(slurm_id_of checkpoint)"
    run batchai job wait --name checkpoint
    echo "$output"
    [[ $status -eq 0 ]]
    run --separate-stderr output_of checkpoint
    echo "$output"
    [[ $output == *"starts at $stopped"*"has finished"* ]]
}

# Breaks when Keras ranks do not stop after the same step, or do not go on where they stopped.
@test "the Keras checkpoint example loses no step when its time is over and it is run again" {
    local stopped
    copy digits-checkpoint digits_checkpoint_keras.py myshare/digits
    submit checkpoint-keras digits-checkpoint job-keras.json \
        '.properties.horovodSettings.commandLineArgs += " --pause=0.2 --epochs=2"
            | .properties.checkpoint.before = "PT4S"'
    wait_until 90 has_printed checkpoint-keras "starts at epoch 0, step 0"
    # What Slurm does before the time limit.
    as_user scancel --signal=URG --batch "$(slurm_id_of checkpoint-keras)"
    wait_until 60 has_printed checkpoint-keras "stops after epoch"
    stopped=$(batchai job logs checkpoint-keras | sed -n 's/^stops after //p')
    wait_until 60 state_is checkpoint-keras queued
    start_again "$(slurm_id_of checkpoint-keras)"
    run batchai job wait --name checkpoint-keras
    echo "$output"
    [[ $status -eq 0 ]]
    run --separate-stderr output_of checkpoint-keras
    echo "$output"
    [[ $output == *"starts at $stopped"*"has finished"* ]]
}

epoch_of_is_over() { output_of "$1" 2> /dev/null | grep -q "^Epoch $2/"; }

# Breaks when a lost rank or node ends an elastic job, a commit is lost, or a restart is not told.
@test "the elastic example goes on when a rank is killed, and with three ranks when a node is lost" {
    copy digits-elastic digits_elastic.py myshare/digits
    submit elastic digits-elastic job.json \
        '.properties.horovodSettings.commandLineArgs = "--epochs=26 --pause=0.5 --require-accuracy=0.95"'
    wait_until 60 epoch_of_is_over elastic 2
    as_root_on h2 pkill -KILL -u alice -f digits_elastic
    wait_until 60 epoch_of_is_over elastic 7
    as_root_on login scontrol update nodename=$gone_node state=down reason=test
    run batchai job wait --name elastic
    echo "$output"
    local code=$status
    wait_until 60 node_answers $gone_node
    run --separate-stderr output_of elastic
    echo "$output"
    [[ $code -eq 0 ]]
    [[ $output == *"Epoch 7/26 - 4 ranks"* && $output == *"Epoch 26/26 - 3 ranks"* ]]
    # None is missing; one that is over twice was lost between its commit and its line, or the
    # other way round.
    [[ $(grep -o '^Epoch [0-9]*' <<< "$output" | sort -u | wc -l) -ge 24 ]]
    [[ $output == *"Test accuracy: "* ]]
    run as_user bash -c "find '$HOME_DIR/records' -path '*attempts/1.json' \
        -newer '$HOME_DIR/elastic.json' -exec jq -c '[.restarts[].nodes, .exitCode, .slurmJobId]' {} +"
    echo "$output"
    [[ $output =~ \[\"h1\",\"h2\",\"h3\",\"h4\"\],\[\"h1\",\"h2\",\"h3\"\],0,\"([0-9]+)\"\] ]]
    # A node that is taken out of a job gets no epilog of it.
    as_user_on $gone_node "$PREFIX/libexec/batchai/batchai-node" clean --job-id "${BASH_REMATCH[1]}"
    run --separate-stderr batchai job file stream --job elastic --file-name execution-h1.log
    [[ $output == *"the ranks start again on 3 of 4 nodes, restart 2 of 3"* ]]
}

waits_again() { [[ $(as_user squeue -h -n "$1" -o '%T %r') == 'PENDING BeginTime' ]]; }

# Breaks when nobody has the job queued again whose batch script is lost with its node (Slurm keeps it
# until its time limit), or when the second attempt starts from nothing.
@test "the elastic example goes on from its last commit when its first node dies" {
    copy digits-elastic digits_elastic.py myshare/digits
    submit elastic-first digits-elastic job.json \
        '.properties.horovodSettings.commandLineArgs = "--epochs=24 --pause=0.5 --require-accuracy=0.95"'
    wait_until 60 epoch_of_is_over elastic-first 4
    host_dies h1
    # Else Slurm would take its time to see it.
    as_root_on login scontrol update nodename=h1 state=down reason=test
    wait_until 60 waits_again elastic-first || {
        as_user squeue --steps
        as_user sacct -j "$(as_user squeue -h -n elastic-first -o %i)" -o JobID,JobName,State,NodeList
        as_user find "$HOME_DIR/records" -newer "$HOME_DIR/elastic-first.json" \
            \( -name '*.log' -o -path '*/attempts/*' \) -exec tail -n 20 {} +
        return 1
    }
    host_lives h1
    # Slurm would wait for two minutes.
    as_root_on login scontrol update jobid="$(as_user squeue -h -n elastic-first -o %i)" starttime=now+2
    run batchai job wait --name elastic-first
    echo "$output"
    [[ $status -eq 0 ]]
    run --separate-stderr output_of elastic-first
    echo "$output"
    [[ $output == *"Epoch 24/24 - 4 ranks"* && $output == *"Test accuracy: "* ]]
    # Once, before the commit that the second attempt found.
    [[ $(grep -c '^Epoch 3/' <<< "$output") -eq 1 ]]
    run --separate-stderr batchai job file stream --job elastic-first --file-name execution-h1.log
    [[ $output == *"attempt 2"* ]]
    run as_user find "$HOME_DIR/records" -name slurm.log -exec grep -h 'is lost' {} +
    [[ $output == *"the job's first node, h1, is lost"* ]]
}

# Breaks when the model is not saved where the tutorial says, cannot be loaded again, or generated
# images pass for CIFAR-10.
@test "the CIFAR-10 example trains on generated images and leaves the tutorial's model" {
    copy cifar10-keras cifar10_files.py myshare/cifar
    copy cifar10-keras cifar_cnn_distributed.py myshare/cifar
    copy cifar10-keras make_synthetic_cifar10.py myshare/cifar
    as_user "$PYTHON" -B "$HOME_DIR/myshare/cifar/make_synthetic_cifar10.py" \
        "$HOME_DIR/myshare/cifar/synthetic" --train 500 --test 100
    submit cifar cifar10-keras job-demo.json \
        '.properties.horovodSettings.commandLineArgs |= sub("--epochs=8 --steps-per-epoch=30";
                                                            "--epochs=4 --steps-per-epoch=4")'
    run batchai job wait --name cifar
    echo "$output"
    [[ $status -eq 0 ]]
    run --separate-stderr output_of cifar
    echo "$output"
    [[ $output == *"SYNTHETIC CIFAR-10-format images"* ]]
    [[ $output == *"Test loss:"* && $output == *"Test accuracy:"* ]]
    run as_user env TF_CPP_MIN_LOG_LEVEL=3 "$PYTHON" -c '
import sys, keras
model = keras.models.load_model(sys.argv[1], compile=False)
print("shapes", model.input_shape, model.output_shape)' \
        "$HOME_DIR/myshare/cifar/saved_models/keras_cifar10_trained_model.h5"
    echo "$output"
    [[ $status -eq 0 && $output == *"shapes (None, 32, 32, 3) (None, 10)"* ]]
}
