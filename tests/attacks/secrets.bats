#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bob, and root on every host, look for the secrets that alice's job file takes from her environment
# (fromEnv) and her files (fromFile): while the job runs, and after it, whichever way she submits.

bats_require_minimum_version 1.5.0
load ../integration/lib

share=/shared/secrets
from_shell=hush-of-the-shell-4711
from_disk=hush-of-the-file-0815

setup_file() {
    as_root_on login install -d -m 1777 "$share" "$share/logs" "$share/none"
    as_user bash -c "umask 077; echo $from_disk > $share/token; echo other > $share/open; chmod 644 $share/open
        ln -s token $share/link; : > $share/empty; mkfifo $share/pipe"
    job job '{"name": "TOKEN", "fromEnv": "MY_TOKEN"}, {"name": "MY_TOKEN", "fromEnv": "MY_TOKEN"},
        {"name": "KEY", "fromFile": "/shared/secrets/token"}'
}

teardown_file() {
    end_jobs || return
    as_root_on login rm -rf "$share"
}

# job NAME SECRETS: each rank says which secrets it has, without saying them, and waits for $share/looked.
job() {
    as_user bash -c "cat > $share/$1.json" << JSON
{"properties": {"nodeCount": 2, "stdOutErrPathPrefix": "$share/logs",
  "environmentVariables": [{"name": "TRIED", "value": "tried=\$MY_TOKEN"}],
  "secrets": [$2],
  "customMpiSettings": {"commandLine": "bash $share/rank.sh"}}}
JSON
    # The values are compared as checksums, so that they are in no log.
    as_user bash -c "cat > $share/rank.sh" << 'SH'
sum() { printf %s "$1" | sha256sum | cut -c1-16; }
echo "TOKEN=$(sum "$TOKEN") MY_TOKEN=$(sum "$MY_TOKEN") KEY=$(sum "$KEY") $TRIED."
for i in $(seq 1500); do [ ! -e /shared/secrets/looked ] || break; sleep 0.1; done
SH
}

sum() { printf %s "$1" | sha256sum | cut -c1-16; }
right_line() {
    echo "TOKEN=$(sum "$from_shell") MY_TOKEN=$(sum "$from_shell") KEY=$(sum "$from_disk") tried=."
}

# with_secret CMD…: alice has the secret in her environment.
with_secret() {
    as_user env "BATCHAI_HOME=$share/records" "PATH=$PREFIX/bin:/usr/bin:/bin" "MY_TOKEN=$from_shell" "$@"
}

# clean WHERE TEXT: no secret is in the text.
clean() {
    local secret
    for secret in "$from_shell" "$from_disk"; do
        if [[ $2 == *"$secret"* ]]; then
            printf '%s has a secret:\n%s\n' "$1" "$2" >&2
            return 1
        fi
    done
}

# nothing_has_the_secret ID: neither Slurm's answers and files, nor records and logs, nor the
# arguments of any process have one; nor has the environment of a process that is not the job's own.
nothing_has_the_secret() {
    local host shown
    shown=$(as_bob scontrol show job -dd "$1") || true
    clean 'scontrol show job' "$shown" || return 1
    # The secrets' own file is where they belong.
    shown=$(as_root_on login grep -rlF -e "$from_shell" -e "$from_disk" "$share" || true)
    shown=$(grep -vE '/secrets\.json$|/secrets/token$' <<< "$shown" || true)
    [[ -z $shown ]] || { echo "in: $shown" >&2; return 1; }
    for host in login h1 h2; do
        # The directory exists, else the search would prove nothing.
        as_root_on "$host" test -d /var/lib/slurm || return 1
        shown=$(as_root_on "$host" grep -rlaF -e "$from_shell" -e "$from_disk" /var/lib/slurm /run 2> /dev/null || true)
        [[ -z $shown ]] || { echo "on $host: $shown" >&2; return 1; }
        # What the test itself runs to look is left out.
        # shellcheck disable=SC2016 # for the inner shell
        shown=$(as_root_on "$host" sh -c 'for f in /proc/[0-9]*/cmdline; do tr "\0" " " < $f; echo; done 2> /dev/null' |
            grep -vE 'minicluster|timeout|grep |env BATCHAI_HOME' || true)
        clean "an argument on $host" "$shown" || return 1
        # shellcheck disable=SC2016 # for the inner shell
        shown=$(as_root_on "$host" sh -c 'for f in /proc/[0-9]*; do
            case $(cat $f/comm) in slurm*|sbatch|srun|salloc|batchai*) tr "\0" "\n" < $f/environ ;; esac
            done 2> /dev/null')
        clean "the environment of a process on $host" "$shown" || return 1
    done
}

setup() { as_root_on login rm -rf "$share/looked" "$share/logs"; as_root_on login install -d -m 1777 "$share/logs"; }
teardown() { as_user touch "$share/looked"; cancel_jobs; wait_until 60 nothing_is_queued; }

lines_written() { as_user sh -c "cat $share/logs/*/*/*/*/*/*/*/*/*/stdouterr/stdout.txt" | grep -cF "$(right_line)"; }
ranks_run() { [[ $(lines_written) -eq 2 ]]; }

# refused TEXT [CMD…]: job create of bad.json says so, at its line, and makes nothing.
refused() {
    run as_user env "BATCHAI_HOME=$share/none" "PATH=$PREFIX/bin:/usr/bin:/bin" "${@:2}" \
        batchai job create --name bad -f "$share/bad.json"
    echo "$output"
    [[ $status -ne 0 && $output == *"bad.json:"*"$1"* && $output != *"$from_disk"* ]]
    prints_nothing as_user find "$share/none" -type f
}

# Breaks when a secret reaches Slurm, a record or a log, or does not reach the ranks.
@test "job create: the ranks have the secrets, and nothing else has" {
    local id
    id=$(with_secret batchai job create --name mine -f "$share/job.json" --query slurmJobId -o tsv 2> "$BATS_TEST_TMPDIR/said")
    wait_until 60 ranks_run
    nothing_has_the_secret "$id"
    run with_secret batchai job show --name mine
    clean 'job show' "$output"
    [[ $(jq -c '[.secrets[] | .fromEnv // .fromFile]' <<< "$output") == '["MY_TOKEN","MY_TOKEN","/shared/secrets/token"]' ]]
    as_user touch "$share/looked"
    wait_until 60 job_is "$id" COMPLETED
    nothing_has_the_secret "$id"
}

# Breaks when the command that submits keeps the variable.
@test "sbatch --job-json: the steps have the secrets, and nothing else has" {
    local id
    id=$(with_secret sbatch --parsable -o "$share/logs/batch.txt" --job-json="$share/job.json" \
        --wrap="echo batch=\$MY_TOKEN.; srun bash $share/rank.sh")
    wait_until 60 as_user grep -qF "$(right_line)" "$share/logs/batch.txt"
    nothing_has_the_secret "$id"
    as_user grep -x 'batch=.' "$share/logs/batch.txt"
    as_user touch "$share/looked"
    wait_until 60 job_is "$id" COMPLETED
    nothing_has_the_secret "$id"
}

@test "srun and salloc: the steps have the secrets, and the shell of salloc has not" {
    as_user touch "$share/looked"
    run with_secret srun --job-json="$share/job.json" bash "$share/rank.sh"
    echo "$output"
    [[ $status -eq 0 && $(grep -cF "$(right_line)" <<< "$output") -eq 2 ]]
    run with_secret salloc --job-json="$share/job.json" sh -c "echo shell=\$MY_TOKEN.; srun bash $share/rank.sh"
    echo "$output"
    [[ $status -eq 0 && $(grep -cF "$(right_line)" <<< "$output") -eq 2 && $output == *'shell=.'* ]]
}

# Breaks when a job is made although a secret is missing, or a file that others can read is taken.
@test "what cannot be read is named at its place before anything is made" {
    job bad '{"name": "A", "fromEnv": "NOT_SET_HERE"}'
    refused 'the variable NOT_SET_HERE is not set'
    refused 'the variable NOT_SET_HERE is empty' env NOT_SET_HERE=
    run as_user env "NOT_SET_HERE=" "PATH=$PREFIX/bin:/usr/bin:/bin" "BATCHAI_HOME=$share/none" \
        srun -N2 --job-json="$share/bad.json" true
    [[ $status -ne 0 && $output == *'NOT_SET_HERE is empty'* ]]
    local name
    for name in PATH HOME LD_PRELOAD SLURM_JOB_ID BATCHAI_HOME PMIX_RANK; do
        job bad "{\"name\": \"A\", \"fromEnv\": \"$name\"}"
        refused "cannot be \"$name\""
    done
    for name in open:'nobody else can read' link:'nobody else can read' empty:'is empty' pipe:'nobody else can read' \
        missing:'cannot read'; do
        job bad "{\"name\": \"A\", \"fromFile\": \"$share/${name%%:*}\"}"
        refused "${name#*:}"
    done
    job bad '{"name": "A", "fromFile": "relative"}'
    refused 'must be an absolute path'
    job bad '{"name": "A", "valueSecretReference": {"sourceVault": {"id": "v"}, "secretUrl": "https://v/s"}}'
    refused 'in a key vault, which this program cannot open'
    [[ $output == *'"fromEnv": "NAME"'* ]]
}

# Root can read everything, so only the owner is in the way here. Breaks when whose file it is is not
# looked at.
@test "a file of somebody else is not taken, although it can be read" {
    as_bob sh -c "umask 077; echo planted > $share/of-bob"
    job bad '{"name": "A", "fromFile": "/shared/secrets/of-bob"}'
    run as_root_on login env "BATCHAI_HOME=$share/none-of-root" "PATH=$PREFIX/bin:/usr/bin:/bin" \
        batchai job create --name bad -f "$share/bad.json"
    echo "$output"
    [[ $status -eq 3 && $output == *'must be a file of yours that nobody else can read'* && $output != *planted* ]]
    prints_nothing as_root_on login find "$share" -path '*none-of-root/*' -type f
    # The same command takes a file of root's, so that nothing else was in the way.
    as_root_on login sh -c "umask 077; echo mine > $share/of-root"
    job bad '{"name": "A", "fromFile": "/shared/secrets/of-root"}'
    run -0 as_root_on login env "BATCHAI_HOME=$share/none-of-root" "PATH=$PREFIX/bin:/usr/bin:/bin" \
        batchai job create --name bad -f "$share/bad.json" --dry-run
    as_bob rm "$share/of-bob"
}

# bob makes a link that leads to a directory of alice's, in which a private file has the name that her
# job file expects elsewhere. Breaks when a link of his is followed.
@test "a link among the directories of the path is not followed where others can make one" {
    as_user bash -c "umask 077; mkdir -p $share/private && echo elsewhere > $share/private/id"
    as_bob ln -s "$share/private" "$share/keys"
    job bad '{"name": "A", "fromFile": "/shared/secrets/keys/id"}'
    refused 'is a symbolic link in a directory to which others can write'
    as_bob rm "$share/keys"
    # A link where only she can write is her own.
    as_user bash -c "ln -s $share/private /home/alice/keys-link"
    job bad '{"name": "A", "fromFile": "/home/alice/keys-link/id"}'
    run -0 as_user env "BATCHAI_HOME=$share/none" "PATH=$PREFIX/bin:/usr/bin:/bin" \
        batchai job create --name good -f "$share/bad.json" --dry-run
    as_user rm -r /home/alice/keys-link $share/private
}

# Breaks when the token is in a message, or in the line of the file that is shown below it.
@test "a token in the place of a variable's name is not shown" {
    local token=hf_AbCdEf0123456789GhIjKl
    job bad "{\"name\": \"A\", \"fromEnv\": \"$token\"}"
    refused 'a text of 25 bytes that looks like a secret is not set'
    [[ $output != *AbCdEf* && $output == *'"fromEnv": "****'* ]]
    token=glpat-x0123456789abcdef
    job bad "{\"name\": \"A\", \"fromEnv\": \"$token\"}"
    refused "is not a variable's name"
    [[ $output != *glpat* ]]
    job bad "{\"name\": \"$token\", \"fromEnv\": \"A\"}"
    refused "is not a variable's name"
    [[ $output != *glpat* ]]
    # A name is shown.
    job bad '{"name": "A", "fromEnv": "NOT_SET_HERE"}'
    refused 'the variable NOT_SET_HERE is not set'
}

# Breaks when the variable stays because nobody makes a plan.
@test "BATCHAI_DISABLE=1: the variable does not get to Slurm" {
    local id
    id=$(with_secret env BATCHAI_DISABLE=1 sbatch --parsable -N1 -o "$share/logs/off.txt" --job-json="$share/job.json" \
        --wrap="echo off=\$MY_TOKEN.")
    wait_until 60 job_is "$id" COMPLETED
    as_user grep -x 'off=.' "$share/logs/off.txt"
    nothing_has_the_secret "$id"
    # The switch works also if the file does not.
    as_user bash -c "echo '{' > $share/broken.json"
    run -0 as_user env BATCHAI_DISABLE=1 "PATH=$PREFIX/bin:/usr/bin:/bin" sbatch -N1 -o /dev/null --job-json="$share/broken.json" --wrap=true
    [[ $output == *'stay in the environment'* ]]
}

# Breaks when an srun in the job passes on what its script has exported again.
@test "a later srun takes the variable out as well" {
    as_user touch "$share/looked"
    job again '{"name": "TOKEN", "fromEnv": "MY_TOKEN"}'
    local again=hush-in-the-script-2709 see='echo "left=$MY_TOKEN. there=${TOKEN:+yes}"'
    run -0 with_secret salloc --job-json="$share/again.json" sh -c \
        "export MY_TOKEN=$again; srun --job-json=$share/again.json sh -c '$see'; srun sh -c '$see'"
    echo "$output"
    [[ $(grep -cx 'left=. there=yes' <<< "$output") -eq 4 && $output != *"$again"* ]]
    local id
    id=$(with_secret sbatch --parsable -o "$share/logs/again.txt" --job-json="$share/again.json" \
        --wrap="export MY_TOKEN=$again; srun --job-json=$share/again.json sh -c '$see'")
    wait_until 60 job_is "$id" COMPLETED
    [[ $(as_user grep -cx 'left=. there=yes' "$share/logs/again.txt") -eq 2 ]]
}
