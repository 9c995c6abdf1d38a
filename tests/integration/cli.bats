#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The batchai command as a user on the login host sees it, against a real Slurm.

bats_require_minimum_version 1.5.0
load lib

setup() {
    # Records of each test in a directory of their own, on what all hosts see.
    make_home "cli-$BATS_TEST_NUMBER"
    write_job job.json 'echo hello from $(hostname)'
}

teardown() {
    cancel_jobs
    # A job that is ending still writes its record.
    wait_until 60 nothing_is_queued
    remove_home
}

# write_job FILE COMMAND [NODES]: a job that runs COMMAND once and logs on shared storage.
write_job() {
    jq -n --arg command "$2" --argjson nodes "${3:-1}" '{properties: {
        nodeCount: $nodes,
        stdOutErrPathPrefix: "$AZ_BATCHAI_JOB_MOUNT_ROOT/logs",
        mountVolumes: {azureFileShares: [{
            azureFileUrl: "https://site.file.core.windows.net/logs",
            relativeMountPath: "logs"}]},
        outputDirectories: [{id: "MODEL", pathPrefix: "$AZ_BATCHAI_JOB_MOUNT_ROOT/logs",
                             pathSuffix: "model"}],
        customToolkitSettings: {commandLine: $command}}}' |
        write_home "$1"
}

create() { batchai job create --name "$1" --config-file "${2:-job.json}" --output none; }
state() { batchai job show --name "$1" --query executionState --output tsv; }
no_records() { prints_nothing as_user find "$HOME_DIR" -name records; }

# code_of REDIRECTION WORDS…: runs batchai with it, in a shell on the login host; prints the exit code.
code_of() {
    as_user bash -c "BATCHAI_HOME=$HOME_DIR/records $PREFIX/bin/batchai ${*:2} $1 < /dev/null; echo \$?" |
        tail -n 1
}

# Breaks when a log that is full or closed ends a command by a signal, and so loses its exit code.
@test "a standard error that takes nothing changes no exit code" {
    local where
    write_job fails.json 'exit 7'
    create fails fails.json
    for where in '2> /dev/full' '2>&-' '> /dev/null 2>&-'; do
        [[ $(code_of "$where" job wait --name fails) == 7 ]]
        [[ $(code_of "$where" job show --name nosuch) == 5 ]]
        [[ $(code_of "$where" job foo) == 2 ]]
        [[ $(code_of "$where" job list --query x[) == 2 ]]
    done
    [[ $(code_of '2>&-' job delete --name fails --yes) == 0 ]]
}

# Breaks when a limit on the size of files, which Slurm gives to the job as well, ends batchai by a signal. The
# files of the ranks are below the limit, and the logs of all are above it.
@test "a limit on the size of files is told as a full disk is" {
    run -1 as_user bash -c "ulimit -f 1; BATCHAI_HOME=$HOME_DIR/records $PREFIX/bin/batchai job create --name small \
        --config-file $HOME_DIR/job.json"
    [[ $output == *"File too large"* ]]
    run -5 batchai job show --name small
    write_mpi_job long.json 2 'head -c 24000 /dev/zero | tr "\\0" "\\n"'
    as_user bash -c "ulimit -f 32; BATCHAI_HOME=$HOME_DIR/records $PREFIX/bin/batchai job create --name long \
        --config-file $HOME_DIR/long.json --output none"
    run -0 batchai job wait --name long
    [[ $output == *"warning:"*"stdout.txt"*"File too large"* ]]
    [[ $(batchai job logs long | wc -c) -ge 48000 ]]
}

# Breaks when an account without a home of its own, as those of services are, is not told what to do.
@test "who has no home is told where else records can be" {
    run -1 as_user env HOME=/nonexistent "$PREFIX/bin/batchai" job create --name homeless --config-file "$HOME_DIR/job.json"
    [[ $output == *"/nonexistent"*"cannot create the directory"*BATCHAI_HOME* ]]
}

# Breaks when a copy of the logs on a full disk counts as complete.
@test "output that is lost is a failure" {
    local where
    create whole
    batchai job wait --name whole
    for where in '> /dev/full' '>&-' '>&- 2>&-'; do
        [[ $(code_of "$where" job logs whole) == 1 ]]
        [[ $(code_of "$where" job report whole) == 1 ]]
        [[ $(code_of "$where" job file stream --job whole --file-name stdout.txt) == 1 ]]
        [[ $(code_of "$where" job list) == 1 ]]
        [[ $(code_of "$where" --version) == 1 ]]
        [[ $(code_of "$where" job wait --name whole) == 0 ]]
    done
}

# Breaks when a parent's existence is not checked, a record is not written, or delete leaves children.
@test "groups, workspaces and experiments are made, shown, listed and deleted" {
    run -5 batchai workspace create --workspace dev --resource-group team
    [[ $output == *team* ]]
    batchai group create --name team --location here
    batchai workspace create --workspace dev --resource-group team
    batchai experiment create --name cifar --workspace dev --resource-group team
    run -0 batchai experiment show -n cifar -w dev -g team --query id -o tsv
    [[ $output == */resourceGroups/team/providers/Microsoft.BatchAI/workspaces/dev/experiments/cifar ]]
    run -0 batchai workspace list -g team -o table
    [[ ${lines[2]} =~ ^dev\ +team\ +here\ +succeeded$ ]]
    run -2 batchai group delete --name team
    [[ $output == *--yes* ]]
    batchai group delete --name team --yes
    run -0 batchai group list
    [[ $output == "[]" ]]
}

# Breaks when the cluster's counts do not come from Slurm, or resize does not reach the record.
@test "a cluster shows Slurm's nodes and follows a resize" {
    run -0 --separate-stderr batchai cluster create --name nc6 --vm-size standard_nc6 --target 3 \
        --generate-ssh-keys --query vmSize
    [[ $output == '"STANDARD_NC6"' ]]
    # shellcheck disable=SC2154 # bats' run --separate-stderr sets it
    [[ $stderr == *"--generate-ssh-keys has no effect"* ]]
    wait_until 60 nodes_idle 4
    run -0 batchai cluster show --name nc6 --output table
    [[ ${lines[2]} =~ ^nc6\ .*\ steady\ +3\ +0\ +0\ +0\ +0$ ]]
    batchai cluster resize --name nc6 --target 0
    run -0 batchai cluster show -n nc6 --query '[currentNodeCount, scaleSettings.manual.targetNodeCount]' -o tsv
    [[ $output == $'0\n0' ]]
    run -2 batchai cluster create --name other --vm-size x --min 1
    [[ $output == *"You need to either provide both min and max"* ]]
    run -5 batchai job create -n j -c nosuch -f job.json
    [[ $output == *"The specified cluster nosuch is not found"* ]]
    batchai cluster delete --name nc6 --yes
    run -5 batchai cluster show --name nc6
}

# Breaks when the dry run asks Slurm, writes a record, or prints anything that changes between runs.
@test "a dry run needs no Slurm, leaves nothing and is the same twice" {
    local command="unset SLURM_CONF; PATH=/nowhere BATCHAI_HOME=$HOME_DIR/records \
        $PREFIX/bin/batchai job create --dry-run -c nosuch -e none -f $HOME_DIR/job.json"
    run -0 as_user /bin/bash -c "$command"
    [[ $output == *'"schema": "batchai-plan/v3"'* && $output == *"# sbatch --parsable"* ]]
    [[ $output == *"exec '$PREFIX/bin/batchai' run --plan "* ]]
    local first=$output
    run -0 as_user /bin/bash -c "$command"
    [[ $output == "$first" ]]
    no_records
}

# Breaks when a fault in the file is missed, is told without its place, or leaves a record.
@test "a bad file is refused with all its faults and changes nothing" {
    as_user bash -c "echo '{\"properties\": {\"nodeCout\": 2, \"customToolkitSettings\": 7}}' > $HOME_DIR/bad.json"
    run -3 batchai job create --name bad --config-file bad.json
    [[ $output == *'bad.json:1:17: error: unknown key "nodeCout"'*'did you mean "nodeCount"'* ]]
    [[ $output == *customToolkitSettings* ]]
    no_records
    run -3 batchai validate --format json bad.json
    jq -e 'length >= 2 and all(.[]; .line >= 1 and .file == "bad.json")' <<< "$output"
    run -2 batchai job list --query '[?name=='
    [[ $output == *"not a JMESPath expression"*"[?name=="*^* ]]
}

# Breaks when the reservation stays after sbatch said no, or the refusal has the wrong exit code.
@test "a rejected submission leaves no record" {
    as_user bash -c "echo 'return {default_partition = \"nosuch\"}' > $HOME_DIR/site.lua"
    run -4 as_user bash -c "cd $HOME_DIR; BATCHAI_SITE=$HOME_DIR/site.lua \
        BATCHAI_HOME=$HOME_DIR/records '$PREFIX/bin/batchai' job create --name no -f job.json"
    [[ $output == *[Ii]nvalid\ partition* ]]
    run -5 batchai job show --name no
    run -0 batchai job list --query 'length(@)'
    [[ $output == 0 ]]
    prints_nothing as_user find "$HOME_DIR/records" -path '*jobs/*'
    # The name is free again.
    create no
}

# Breaks when the job's exit code is lost on its way, or the failure does not name host and line.
@test "wait exits with the job's code and show names the failure" {
    write_job fail.json 'echo it went wrong >&2; exit 42'
    create fail fail.json
    run -42 --separate-stderr batchai job wait --name fail
    [[ -z $output ]]
    [[ $stderr == *"Job submitted at "*"Job state: failed"*"Job failed with exit code 42 at "* ]]
    run -0 batchai job show --name fail --query executionInfo
    jq -e '.exitCode == 42 and .errors[0].code == "JobFailed"
           and any(.errors[0].details[]; .name == "Node" and (.value | startswith("h")))
           and any(.errors[0].details[]; .name == "FirstErrorLine" and .value == "it went wrong")' \
        <<< "$output"
    run -0 batchai job list --output table
    [[ ${lines[2]} =~ failed\ +42$ ]]
    run -4 batchai job create --name fail --config-file job.json
    [[ $output == *"A job with given name, experiment, workspace and resource group already exists."* ]]
}

# Breaks when polling is so slow that a short job's end is seen late.
@test "wait sees the end of a short job within two seconds" {
    write_job short.json 'sleep 3'
    local name now end late most look
    # The best of three: a busy machine may hold up one.
    for name in short shorter shortest; do
        create "$name" short.json
        batchai job wait --name "$name"
        now=$(date +%s.%N)
        # How long Slurm takes to end the ranks is not tested here: the record of the attempt says when
        # that was over.
        end=$(as_user bash -c "find $HOME_DIR/records -path '*/$name/*attempts/1.json' -printf '%T@'")
        [[ -n $end ]]
        late=$(jq -n "$now - $end")
        # The last look and the end of the command take as long as they do on this machine.
        look=$(date +%s.%N)
        batchai job show --name "$name" --output none
        most=$(jq -n "2.5 + 2 * ($(date +%s.%N) - $look)")
        echo "$name: seen after $late s, of $most s"
        if jq -ne "$late < $most"; then break; fi
    done
    jq -ne "$late < $most"
}

# Breaks when the last bytes before the job's end are not read, or any are read twice.
@test "stream loses no byte of a file that is written until the very end" {
    write_job writer.json 'for i in $(seq 1 60000); do echo "line $i of the output"; done; sleep 1
        for i in $(seq 60001 120000); do echo "line $i of the output"; done; printf "no newline"'
    create writer writer.json
    batchai job file stream --job writer --file-name stdout.txt > "$BATS_TEST_TMPDIR/seen"
    { seq -f 'line %.0f of the output' 1 120000; printf 'no newline'; } > "$BATS_TEST_TMPDIR/wanted"
    cmp "$BATS_TEST_TMPDIR/wanted" "$BATS_TEST_TMPDIR/seen"
    run -0 --separate-stderr batchai job file stream --job writer --file-name nosuch.txt
    [[ $stderr == *'The file "nosuch.txt" not found for the completed job.'* ]]
}

# Breaks when Ctrl-C ends the stream with an error or takes the job along.
@test "an interrupt ends the stream and leaves the job running" {
    write_job long.json 'echo started; sleep 300'
    create long long.json
    wait_until 60 state_is long running
    wait_until 60 as_user grep -rqx --include=stdout.txt started "$HOME_DIR/records/storage"
    # Programs that a script starts in the background ignore Ctrl-C.
    # shellcheck disable=SC2016 # for the inner shell
    run -0 as_user bash -c 'cd "$1" && export BATCHAI_HOME=$1/records
        env --default-signal=INT "$2" job file stream -j long -f stdout.txt > seen 2> said < /dev/null &
        until grep -qs started seen; do kill -0 $! || break; sleep 0.1; done
        kill -INT $!
        wait $!' stream "$HOME_DIR" "$PREFIX/bin/batchai"
    [[ $(as_user cat "$HOME_DIR/seen") == started ]]
    state_is long running
}

# Breaks when terminate does not reach Slurm, or the end is told as the ranks' failure.
@test "a terminated job has failed, was terminated by the user and has no exit code" {
    write_job long.json 'sleep 300'
    create long long.json
    wait_until 60 state_is long running
    batchai job terminate --name long --yes
    run -0 batchai job show --name long --query '[executionState, executionInfo.errors[0].code, executionInfo.exitCode]' -o tsv
    [[ $output == $'failed\nJobTerminated\nNone' ]]
    run -255 batchai job wait --name long
    # A job that has ended is left alone.
    batchai job terminate --name long --yes
}

# Breaks when a waiting job is not explained, or its termination leaves no times.
@test "a queued job says why it waits" {
    write_job all.json 'sleep 300' 4
    create first all.json
    create second all.json
    wait_until 60 state_is first running
    # Slurm names its reason only at its next look at the queue.
    reason() { [[ $(batchai job show -n second --query pendingReason.reason -o tsv) == @(Resources|Priority) ]]; }
    wait_until 60 reason
    run -0 batchai job show --name second --query pendingReason.message -o tsv
    [[ ${#output} -gt 20 && $output != Resources ]]
    batchai job terminate --name second --yes
    run -0 batchai job show -n second --query 'executionInfo.[startTime, endTime, errors[0].code]' -o tsv
    [[ $output != *None* && $output == *JobTerminated ]]
}

# Breaks when delete leaves the Slurm job running, or the record behind.
@test "deleting a running job cancels it and removes its record" {
    write_job long.json 'sleep 300'
    create long long.json
    wait_until 60 state_is long running
    local id
    id=$(batchai job show --name long --query slurmJobId -o tsv)
    batchai job delete --name long --yes
    run -5 batchai job show --name long
    run as_user squeue -h -j "$id" -o %T
    [[ $output != RUNNING ]]
}

# Breaks when a listing leaves its directory, shows the wrong shape, or lists node-local storage.
@test "files are listed with their sizes, and only below the job's directories" {
    write_job files.json 'echo 12345; echo model > $AZ_BATCHAI_OUTPUT_MODEL/weights.h5
        mkdir $AZ_BATCHAI_OUTPUT_MODEL/sub'
    create files files.json
    batchai job wait --name files
    run -0 batchai job file list --job files
    jq -e 'any(.[]; .name == "stdout.txt" and .contentLength == 6 and .fileType == "file"
                    and (.downloadUrl | startswith("file:///")))
           and (map(.name) == (map(.name) | sort))' <<< "$output"
    run -0 batchai job file list --job files -d MODEL --output table
    [[ ${lines[0]} =~ ^Name\ +Type\ +Size\ +Modified$ ]]
    [[ ${lines[2]} =~ ^sub\ +directory\ +20 && ${lines[3]} =~ ^weights.h5\ +file\ +6\ +20 ]]
    run -2 batchai job file list --job files --path ../..
    [[ $output == *"leaves the job's output directory"* ]]
    jq '.properties.stdOutErrPathPrefix = "$AZ_BATCHAI_JOB_TEMP_DIR"' \
        < <(as_user cat "$HOME_DIR/job.json") | as_user bash -c "cat > $HOME_DIR/local.json"
    create local local.json
    run -1 batchai job file list --job local
    [[ $output == *"The specified outputDirectoryId stdouterr is not present on a mount root"* ]]
}

# Breaks when a secret's value reaches anything but the 0600 file.
@test "a secret's value is only in a file that nobody else may read" {
    jq '.properties.secrets = [{name: "TOKEN", value: "hunter2-value"}]' \
        < <(as_user cat "$HOME_DIR/job.json") | as_user bash -c "cat > $HOME_DIR/secret.json"
    create secret secret.json
    batchai job wait --name secret
    run -0 as_user grep -rl hunter2-value "$HOME_DIR/records"
    [[ $output == */jobs/secret/secrets.json ]]
    run -0 as_user stat -c %a "$output"
    [[ $output == 600 ]]
    run -0 batchai job show --name secret
    [[ $output == *TOKEN* && $output != *hunter2* ]]
}

# Breaks when the drop-in does not skip the first word, or a misspelt word is not guessed.
# Breaks when what Slurm's commands, or ours, said is lost: a parent that ignores SIGCHLD hands that on.
@test "a parent may ignore the ends of its children" {
    run as_user env --ignore-signal=CHLD "BATCHAI_HOME=$HOME_DIR/records" "$PREFIX/bin/batchai" job create \
        --name ignoring --config-file "$HOME_DIR/job.json" --query slurmJobId -o tsv
    echo "$output"
    [[ $status -eq 0 && $output =~ ^[0-9]+$ ]]
    batchai job wait --name ignoring
    # The launcher refuses the file, and sbatch hears of it.
    as_user sh -c "echo '{' > $HOME_DIR/broken.json; printf '#!/bin/sh\n' > $HOME_DIR/script; chmod +x $HOME_DIR/script"
    run ! as_user env --ignore-signal=CHLD sbatch --job-json="$HOME_DIR/broken.json" "$HOME_DIR/script"
    echo "$output"
    [[ $output == *broken.json* ]]
    run -0 as_user env --ignore-signal=CHLD sbatch --wait -o /dev/null --job-json="$HOME_DIR/job.json" "$HOME_DIR/script"
}

@test "the command answers to az and guesses what was meant" {
    run -0 as_user bash -c "BATCHAI_HOME=$HOME_DIR/records PATH=$PREFIX/libexec/batchai/az-drop-in:\$PATH; \
        export BATCHAI_HOME; az group create --name team --location eastus -o none && \
        az batchai workspace create --resource-group team --workspace dev --query name"
    [[ $output == '"dev"' ]]
    run -2 batchai jop list
    [[ $output == *'did you mean "job"'* ]]
    run -0 as_user bash -c "'$PREFIX/bin/batchai' job create --help | grep -A1 Example"
    run -0 as_user bash -c "source <('$PREFIX/bin/batchai' completion bash); COMP_WORDS=(batchai job cr); \
        COMP_CWORD=2; _batchai; echo \${COMPREPLY[*]}"
    [[ $output == create ]]
}

# Breaks when a command has no manual page although batchai(1) names it.
@test "each command that batchai(1) names has a manual page" {
    local page pages
    pages=$(sed -n 's/\\f[BR]/ /g; s/\\//g; s/([0-9])//g; /^ *batchai-/p' "$PREFIX/share/man/man1/batchai.1" |
        tr ', ' '\n' | grep '^batchai-')
    [[ $pages == *batchai-admin* && $pages == *batchai-sweep* && $pages == *batchai-job* ]]
    for page in $pages; do
        echo "$page"
        [[ -s $PREFIX/share/man/man1/$page.1 ]]
    done
}

# Breaks when hand-over prints anything else, plans differently twice, or leaves files readable.
@test "hand-over freezes a plan and prints where it is" {
    run -0 --separate-stderr batchai hand-over --job-json job.json
    lines_are 3 "$output"
    [[ ${lines[2]} == BATCHAI_DECLARATION=* ]]
    [[ ${lines[0]} == BATCHAI_PLAN=$HOME_DIR/records/hand-over/*/plan.json ]]
    local plan=${lines[0]#*=}
    [[ ${lines[1]} == "BATCHAI_PLAN_DIGEST=$(as_user sha256sum "$plan" | cut -d' ' -f1)" ]]
    run -0 as_user stat -c %a "$(dirname "$plan")"
    [[ $output == 700 ]]
    as_user bash -c "echo '{}' > $HOME_DIR/empty.json"
    run -3 --separate-stderr batchai hand-over --job-json empty.json
    [[ -z $output && $stderr == *empty.json* ]]
    # There are the options of the command, or its script.
    local from
    for from in - /dev/stdin; do
        run ! as_user sh -c "printf '#!/bin/sh\n' | sbatch --job-json=$from"
        echo "$output"
        [[ $output == *"cannot come from standard input"* ]]
    done
}
