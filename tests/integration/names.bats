#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Names and texts are data: what a path, a value or a command has in it is never read as a pattern of
# Slurm's, as words of a shell or as an option.

bats_require_minimum_version 1.5.0
load lib

setup() {
    make_home "names-$BATS_TEST_NUMBER"
    place=/shared/names-$$
    as_user mkdir -p "$place"
}

teardown() {
    cancel_jobs
    wait_until 60 nothing_is_queued
    remove_home
    as_user rm -rf "$place"
}

# Names of directories: what Slurm replaces in file names, its escapes, what shells read, blanks, other
# alphabets, and the longest that there is.
odd_names() {
    printf '%s\n' '100%used' '%%j' 'CORP\alice' 'a\\b' '%t %N %5t' 'it'\''s "$HOME" `x`' 'ünï-日本' '-dash' '#no ;&|<>*?' \
        "$(printf 'x%.0s' {1..250})%A%a"
}

# in_home DIRECTORY WORDS…: batchai with its records there; its exit code.
in_home() { as_user env "BATCHAI_HOME=$1" "$PREFIX/bin/batchai" "${@:2}"; }

# refuses DIRECTORY: this Slurm cannot name the job's log there, and that is said at submission.
refuses() {
    run -2 in_home "$1" job create --name j -f "$HOME_DIR/job.json"
    echo "$output"
    [[ $output == *'cannot write the job'\''s log to a path that has a "\"'* ]]
    run -5 in_home "$1" job show --name j
}

# Breaks when no rank starts because Slurm makes another file than ours, or when a rank starts in
# another directory than it does elsewhere.
@test "the records may be in a directory of any name" {
    local name home node names
    mapfile -t names < <(odd_names)
    jq -n --arg logs "$HOME_DIR/logs" '{properties: {nodeCount: 2, stdOutErrPathPrefix: $logs,
        jobPreparation: {commandLine: "echo prepared"},
        customMpiSettings: {processCount: 2, commandLine: "echo rank $SLURM_PROCID in $PWD; echo ${BATCHAI_STEP_DIRECTORY-none} >&2"}}}' |
        write_home job.json
    for name in "${names[@]}"; do
        echo "name: $name"
        home=$place/$name/records
        [[ $name != *\\* ]] || ! slurm_is_from 24.11 || { refuses "$home"; continue; }
        run in_home "$home" job create --name j -f "$HOME_DIR/job.json" --follow
        echo "$output"
        [[ $status -eq 0 && $output == *"Job completed at"* ]]
        run -0 in_home "$home" job logs j --stdout
        echo "$output"
        [[ $(grep -c "^rank [01] in /.*/jobs/j\$" <<< "$output") -eq 2 && $output == *" in $home/"* ]]
        node=$(sed -n 's/^==> \(h[1-4]\):0 <==$/\1/p' <<< "$output")
        run -0 in_home "$home" job file stream --job j --file-name stderr.txt
        [[ ${lines[-1]} == none && ${lines[-2]} == none ]]
        run -0 in_home "$home" job file stream --job j --file-name "stdout-job_prep-$node.txt"
        [[ ${lines[-1]} == prepared ]]
        [[ $(as_user find "$place/$name" -name slurm.log -size +0) == "$home"/*/slurm.log ]]
        # Nothing has been written beside the records.
        [[ $(as_user ls -A "$place") == "$name" ]]
        as_user rm -rf "$place" && as_user mkdir "$place"
    done
}

# Breaks when one of the doors reads such a name.
@test "each door takes records, job files and job names of any kind" {
    local name home file names
    mapfile -t names < <(odd_names | grep '[\\%]')
    for name in "${names[@]}"; do
        echo "name: $name"
        home=$place/$name/records
        file="$place/$name/job.json"
        as_user mkdir -p "$place/$name"
        jq -n --arg logs "$place/$name/logs" '{properties: {nodeCount: 1, stdOutErrPathPrefix: $logs,
            customMpiSettings: {processCount: 2, commandLine: "echo rank $SLURM_PROCID"}}}' |
            as_user sh -c 'cat > "$1"' sh "$file"
        as_user env "BATCHAI_HOME=$home" sbatch --quiet --wait -J "$name" -o "$HOME_DIR/sbatch.txt" --job-json="$file" \
            --wrap "$PREFIX/bin/batchai run"
        run -0 as_user sh -c 'cat "$1"/*/jobs/*/*/stdouterr/stdout.txt || find "$1"' sh "$place/$name/logs"
        run -0 as_user env "BATCHAI_HOME=$home" srun --job-json="$file" sh -c 'echo srun $SLURM_PROCID'
        [[ $(grep -c '^srun [01]$' <<< "$output") -eq 2 ]]
        run -0 as_user env "BATCHAI_HOME=$home" salloc --quiet --job-json="$file" "$PREFIX/bin/batchai" run
        as_user rm -rf "$place" && as_user mkdir "$place"
    done
}

# Breaks when a value or a command is read by more than the one shell that it is written for.
@test "values and commands reach the ranks as they were written, at each door" {
    local value
    value=$'%u %% %t \\ \\\\ \'a\' "b" `id` $(id) ; & | < > * ? # ! {x} ~ ünï 日本\ttab\nsecond line\n-dash '
    jq -n --arg logs "$HOME_DIR/logs" --arg value "$value" '{properties: {nodeCount: 1, stdOutErrPathPrefix: $logs,
        environmentVariables: [{name: "ODD", value: $value}],
        customMpiSettings: {processCount: 1, commandLine: ("printf %s \"$ODD\"; printf %s " + ($value | @sh))}}}' |
        write_home odd.json
    printf %s "$value$value" > "$BATS_TEST_TMPDIR/twice"
    printf %s "$value" > "$BATS_TEST_TMPDIR/once"
    run -0 batchai job create --name odd -f odd.json --follow
    batchai job logs odd --stdout | cmp - "$BATS_TEST_TMPDIR/twice"
    as_user env "BATCHAI_HOME=$HOME_DIR/records" srun --quiet --job-json="$HOME_DIR/odd.json" printenv ODD |
        head -c -1 | cmp - "$BATS_TEST_TMPDIR/once"
    as_user env "BATCHAI_HOME=$HOME_DIR/records" salloc --quiet --job-json="$HOME_DIR/odd.json" srun --quiet printenv ODD |
        head -c -1 | cmp - "$BATS_TEST_TMPDIR/once"
    write_home odd.sh << SH
#!/bin/bash
#SBATCH --job-json="$HOME_DIR/odd.json"
#SBATCH --output=$HOME_DIR/of-sbatch.txt
srun --quiet printenv ODD
SH
    as_user env "BATCHAI_HOME=$HOME_DIR/records" sbatch --quiet --wait "$HOME_DIR/odd.sh"
    as_user cat "$HOME_DIR/of-sbatch.txt" | head -c -1 | cmp - "$BATS_TEST_TMPDIR/once"
}

# Breaks when the line ends of Windows are taken for text without a word.
@test "a file with the line ends of Windows works, and those inside a command are warned of" {
    jq -n --arg logs "$HOME_DIR/logs" '{properties: {nodeCount: 1, stdOutErrPathPrefix: $logs,
        customMpiSettings: {processCount: 1, commandLine: "echo fine"}}}' | sed 's/$/\r/' | write_home crlf.json
    run -0 batchai job create --name crlf -f crlf.json --follow
    [[ $output == *$'\nfine\n'* && $output != *W106* ]]
    jq '.properties.customMpiSettings.commandLine = "set -e\r\necho x\r\n"' <(as_user cat "$HOME_DIR/crlf.json" | tr -d '\r') |
        write_home inside.json
    run -0 batchai validate inside.json
    echo "$output"
    [[ $output == *'inside.json:7:'*': warning: "commandLine" has a carriage return'*'[W106]'* ]]
}
