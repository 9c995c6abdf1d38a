#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The examples/frameworks with packages of frameworks/requirements.txt, each on two hosts. ctest sets
# FRAMEWORKS_PYTHON, the Python that has them.

bats_require_minimum_version 1.5.0
load lib
load framework_examples

setup_file() {
    [[ -x $FRAMEWORKS_PYTHON ]] || {
        echo "there is no $FRAMEWORKS_PYTHON: run scripts/setup --frameworks"
        return 1
    }
    prepare_examples framework-examples-full "$FRAMEWORKS_PYTHON"
    # DeepSpeed compiles first, while the others take turns on the other two hosts.
    local example
    for example in deepspeed lightning accelerate transformers mpi4py; do submit "$example"; done
}

teardown_file() {
    cancel_jobs
    wait_until 60 nothing_is_queued
    remove_home
}

# Breaks when the environment is not the one that the page says was tested.
@test "the environment has the versions that docs/frameworks.md names" {
    run "$FRAMEWORKS_PYTHON" -c '
import re, sys
from importlib.metadata import version
page = open(sys.argv[1]).read()
named = re.findall(r"`([a-z0-9-]+)==([0-9.]+)`", page)
print(len(named), "packages", [name for name, text in named if version(name) != text])' \
        "$SOURCE/docs/frameworks.md"
    echo "$output"
    [[ $status -eq 0 && $output =~ ^[1-9][0-9]*' packages []'$ ]]
}

# Breaks when Lightning does not take the ranks for torchrun's, or counts other tasks per node.
@test "Lightning trains" {
    trains lightning 4
}

@test "Accelerate trains without accelerate launch" {
    trains accelerate 4
}

@test "the Trainer of Transformers trains a tiny BERT" {
    trains transformers 4
}

# Breaks when DeepSpeed misses one of its variables: it would then look for mpi4py's world.
@test "DeepSpeed trains with ZeRO stage 1" {
    trains deepspeed 4
}

@test "mpi4py fits its line" {
    trains mpi4py 4
}

rank_has_failed() { output_of "$1" stderr.txt | grep -qF 'fails as it was asked to'; }

# Breaks when the other ranks, which wait for the one that is gone, keep the job.
@test "a rank of Lightning that raises an error ends the job, and is named" {
    submit lightning failing '.properties.customMpiSettings.commandLine += " --failing-rank=2"'
    wait_until 120 rank_has_failed failing
    wait_until 60 state_is failing failed
    run failure_of failing
    echo "$output"
    jq -e '.exitCode == 1 and .code == "JobFailed" and .Rank == "2"' <<< "$output"
}

@test "nothing of these jobs is left on the hosts" {
    wait_until 60 nothing_is_queued
    wait_until 60 nodes_are_clean h1 h2 h3 h4
}
