#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# Modules and Python environments, snapshots, and webhooks: what docs/surroundings.md says. The job
# files of the page are the ones that run here.

bats_require_minimum_version 1.5.0
load lib
load small_image

setup_file() {
    make_home surroundings
    as_user mkdir "$HOME_DIR/records"
    as_root_on login install -d -m 1777 /shared/modulefiles
    as_user mkdir -p /shared/modulefiles/cuda /shared/modulefiles/openmpi
    as_user sh -c 'printf "#%%Module1.0\nsetenv CUDA_HOME \"/opt/cuda 12.4\"\nprepend-path PATH /opt/cuda/bin\nsetenv LEVEL module\nunsetenv GONE\n" > /shared/modulefiles/cuda/12.4'
    as_user sh -c 'printf "#%%Module1.0\nsetenv MPI_HOME /opt/mpi\n" > /shared/modulefiles/openmpi/4.1'
}

teardown_file() {
    cancel_jobs
    wait_until 60 nodes_idle 4 || return 1
    as_root_on login rm -rf /shared/modulefiles
    remove_home
}

# page_block NUMBER: an indented JSON block of the page. quickstarts.bats runs the page's example.
page_block() {
    awk -v wanted="$1" '/^[^ ]/ { inside = 0 } /^    [{]$/ { ++number; inside = number == wanted }
        inside { sub(/^    /, ""); print }' "$SOURCE/docs/surroundings.md"
}

# job_file NAME COMMAND [NODES]: the job file NAME.json; JSON for its properties on standard input.
job_file() {
    jq -n --arg command "$2" --argjson nodes "${3:-1}" --slurpfile more /dev/stdin '{properties: ({
        nodeCount: $nodes, stdOutErrPathPrefix: "/shared/logs",
        customMpiSettings: {commandLine: $command}} + $more[0])}' | write_home "$1.json"
}

show() { batchai job show --name "$1" --output json; }
log_of() { batchai job file stream --job "$1" --file-name "${2:-execution.log}"; }
# log_says NAME TEXT: for wait_until. The webhook is told after the job's end has been recorded.
log_says() { [[ $(log_of "$1") == *"$2"* ]]; }
runs_to_its_end() { create "$1" && batchai job wait --name "$1"; }

# What a process of a job sees.
see='echo cuda=$CUDA_HOME mpi=$MPI_HOME level=$LEVEL gone=${GONE-unset} python=$(python -c "import sys; print(sys.prefix)") path=${PATH%%:*}'

# Breaks when the variables do not reach every kind of process of the job, when the job's own
# variables lose, or when a later step has another environment than the ranks.
@test "modules and a venv of the page are set up for preparation, ranks and node exec, and recorded" {
    as_user bash -c "cd $HOME_DIR && /usr/bin/python3 -m venv --without-pip venv"
    page_block 1 | jq --arg see "$see" --arg home "$HOME_DIR" '.software.venv = $home + "/venv" | . + {
        jobPreparation: {commandLine: $see},
        environmentVariables: [{name: "LEVEL", value: "mine"}, {name: "GONE", value: "here"}],
        secrets: [{name: "TOKEN", value: "hush-4711"}]}' |
        job_file modules "$see; touch $HOME_DIR/started; until [ -e $HOME_DIR/looked ]; do sleep 0.2; done" 2
    create modules
    local line="cuda=/opt/cuda 12.4 mpi=/opt/mpi level=mine gone=here python=$HOME_DIR/venv path=$HOME_DIR/venv/bin"
    wait_until 60 as_user test -e "$HOME_DIR/started"
    [[ $(batchai job node exec --job modules --exec "$see") == "$line" ]]
    # No step starts without the software because what is kept for its node cannot be read.
    as_user find "$HOME_DIR/records" -name 'h?.software' -exec chmod 000 '{}' +
    run batchai job node exec --job modules --exec "$see"
    echo "$output"
    [[ $status -ne 0 && $output == *"the software of the job is not set up"* ]]
    as_user find "$HOME_DIR/records" -name 'h?.software' -exec chmod 600 '{}' +
    # What is kept for each node is private, and has no secret.
    [[ $(as_user find "$HOME_DIR/records" -name 'h?.software' -perm 600 | wc -l) -eq 2 ]]
    prints_nothing as_user find "$HOME_DIR/records" -type f -not -name secrets.json -exec grep -sl hush-4711 '{}' ';'
    local first
    first=$(as_user squeue -h -j "$(show modules | jq -r .slurmJobId)" -o %B)
    as_user touch "$HOME_DIR/looked"
    batchai job wait --name modules
    lines_are 2 "$(output_of modules)"
    [[ $(output_of modules | sort -u) == "$line" ]]
    [[ $(log_of modules "stdout-job_prep-$first.txt") == "$line" ]]
    show modules | jq -e --arg venv "$HOME_DIR/venv" '.attempts[0].software |
        .modules == ["cuda/12.4", "openmpi/4.1"] and .venv == $venv and .python == $venv + "/bin/python"
        and (.pythonVersion | startswith("3.")) and .remarks == []'
}

# Breaks when the record leaves out what was set up already in the shell that submits.
@test "modules and a venv of the submitting shell are recorded as well" {
    echo '{"software": {"modulePaths": ["/shared/modulefiles"], "modules": ["cuda/12.4"]}}' |
        job_file loaded 'echo "$LOADEDMODULES $VIRTUAL_ENV"'
    as_user bash -c "cd $HOME_DIR && { [ -d venv ] || /usr/bin/python3 -m venv --without-pip venv; }"
    as_user bash -c '. /usr/share/modules/init/bash && module use /shared/modulefiles && module load cuda/12.4 &&
        . "$1/venv/bin/activate" && cd "$1" &&
        BATCHAI_HOME=$1/records "$2" job create --name loaded --config-file loaded.json --output none' \
        submit "$HOME_DIR" "$PREFIX/bin/batchai"
    batchai job wait --name loaded
    [[ $(output_of loaded) == "cuda/12.4 $HOME_DIR/venv" ]]
    show loaded | jq -e --arg venv "$HOME_DIR/venv" '.attempts[0].software |
        .modules == ["cuda/12.4"] and .venv == $venv'
}

# Breaks when a job starts without what it asks for, or nobody learns what is missing where.
@test "what cannot be set up ends the job and is named, with the node and the words of the tool" {
    echo '{"software": {"modulePaths": ["/shared/modulefiles"], "modules": ["cuda/13"]}}' | job_file nomodule 'echo ran'
    run runs_to_its_end nomodule
    [[ $status -ne 0 ]]
    local failure
    failure=$(failure_of nomodule)
    echo "$failure"
    jq -e '.code == "SoftwareFailed" and .Phase == "software" and (.Node | startswith("h"))' <<< "$failure"
    [[ $failure == *"module cuda/13: not available on h"*"Unable to locate a modulefile for 'cuda/13'"*"module avail"* ]]
    echo '{"software": {"venv": "~/no such venv; touch stolen"}}' | job_file novenv 'echo ran'
    run runs_to_its_end novenv
    [[ $status -ne 0 && $(failure_of novenv) == *'is not a virtual environment on h'* ]]
    prints_nothing as_user find "$HOME_DIR" /home/alice -maxdepth 1 -name stolen
    as_user sh -c 'printf "#%%Module1.0\nexec sleep 60\n" > /shared/modulefiles/slow'
    echo '{"software": {"modulePaths": ["/shared/modulefiles"], "modules": ["slow"], "timeLimit": "PT3S"}}' |
        job_file slow 'echo ran'
    run runs_to_its_end slow
    [[ $status -ne 0 && $(failure_of slow) == *'longer than 3 s'* ]]
    # What is not a name of a module is refused before anything is made.
    # shellcheck disable=SC2016 # nobody expands it
    echo '{"software": {"modules": ["a;b", "$(touch x)", "-x"]}}' | job_file badname 'echo ran'
    run batchai validate badname.json
    [[ $status -eq 3 && $(grep -c "is not a module's name" <<< "$output") -eq 3 ]]
}

# Breaks when a list in the job file silently takes away what a module has put into it.
@test "a PATH of the job file is warned of" {
    echo '{"software": {"modules": ["x"]}, "environmentVariables": [{"name": "PATH", "value": "/usr/bin:/bin"}]}' |
        job_file path 'true'
    run -0 batchai validate path.json
    [[ $output == *W231* && $output == *'PATH replaces'* ]]
}

# The layout that conda documents; there is no conda here.
@test "an environment of conda is activated by its layout, by prefix and by name" {
    as_user bash -c "cd $HOME_DIR && mkdir -p .conda/envs/train/{bin,conda-meta,etc/conda/activate.d} &&
        ln -s /usr/bin/python3 .conda/envs/train/bin/python &&
        echo 'export FROM_CONDA=\$CONDA_PREFIX' > .conda/envs/train/etc/conda/activate.d/a.sh"
    page_block 2 | job_file byname 'echo $CONDA_DEFAULT_ENV $FROM_CONDA $(command -v python)'
    batchai_with "HOME=$HOME_DIR" job create --name byname --config-file byname.json --output none
    batchai job wait --name byname
    local place=$HOME_DIR/.conda/envs/train
    [[ $(output_of byname) == "train $place $place/bin/python" ]]
    show byname | jq -e --arg place "$place" '.attempts[0].software.conda == $place'
}

# Breaks when the variables are asked of a program that the image does not have.
@test "software is set up in an image that has no env" {
    local root=$BATS_TEST_TMPDIR/root
    make_root "$root"
    rm "$root/bin/env"
    pack "$root" /shared/modulefiles/without-env.sqsh
    as_user mkdir -p "$HOME_DIR/made/bin" "$HOME_DIR/made/conda-meta"
    # No rank of MPI: the image does not have the libraries for it.
    jq -n --arg prefix "$HOME_DIR/made" '{properties: {nodeCount: 1, stdOutErrPathPrefix: "/shared/logs",
        software: {conda: {prefix: $prefix}},
        containerSettings: {imageSourceRegistry: {image: "/shared/modulefiles/without-env.sqsh"}},
        customToolkitSettings: {commandLine: "echo prefix=$CONDA_PREFIX"}}}' | write_home withoutenv.json
    runs_to_its_end withoutenv
    [[ $(output_of withoutenv) == "prefix=$HOME_DIR/made" ]]
}

# Breaks when the nodes install something else than uv.lock says, or change the project.
@test "a project of uv is installed on each node as its lock says" {
    local uv
    uv=${UV:-$(dirname "$PYTHON")/../../venv-uv/bin/uv}
    as_user test -x "$uv" || { echo "scripts/setup has not made $uv" >&2; return 1; }
    as_user bash -c "mkdir -p $HOME_DIR/train && cd $HOME_DIR/train &&
        printf '[project]\nname = \"train\"\nversion = \"1\"\nrequires-python = \">=3.9\"\n' > pyproject.toml &&
        $uv lock --offline --python /usr/bin/python3 -q"
    page_block 3 | jq '. + {environmentVariables: [{name: "UV_OFFLINE", value: "1"}, {name: "UV_PYTHON", value: "/usr/bin/python3"}]}' |
        job_file uv 'echo $VIRTUAL_ENV; python -c "import sys; print(sys.prefix)"'
    batchai_with "HOME=$HOME_DIR PATH=$(dirname "$uv"):/usr/bin:/bin" job create --name uv --config-file uv.json --output none
    batchai job wait --name uv
    local lines
    lines=$(output_of uv)
    [[ $(sort -u <<< "$lines") == /tmp/batchai-*/uv-* && $(sort -u <<< "$lines" | wc -l) -eq 1 ]]
    [[ $(show uv | jq -r '.attempts[0].software.uvLock') == "$(as_user sha256sum "$HOME_DIR/train/uv.lock" | cut -d' ' -f1)" ]]
    prints_nothing as_user find "$HOME_DIR/train" -name .venv
}

# make_project: a work tree of git with changes, a program, and an origin with a token in its URL.
make_project() {
    as_user bash -c "rm -rf $HOME_DIR/train && mkdir -p $HOME_DIR/train/data && cd $HOME_DIR/train && git init -q -b main . &&
        git config user.email a@b && git config user.name a && echo '*.log' > .gitignore &&
        printf '#!/bin/sh\necho first\n' > run.sh && chmod 750 run.sh && git add . && git commit -qm one &&
        git remote add origin https://alice:hush-0815@git.example.org/alice/train.git &&
        printf '#!/bin/sh\necho submitted\n' > run.sh && echo new > new.txt && echo x > a.log && echo 1 > data/1 &&
        echo x > model.ckpt && ln -s run.sh inside && ln -s /shared away"
}

# Breaks when a job runs a file that was changed after the submission.
@test "a job runs the snapshot of the page's directory, and job show says what it is" {
    make_project
    page_block 4 | job_file snapshot 'cd $AZ_BATCHAI_JOB_SNAPSHOT && ./run.sh && LC_ALL=C ls -A && stat -c %a run.sh'
    run -0 batchai_with "HOME=$HOME_DIR" job create --name dry --config-file snapshot.json --dry-run
    [[ $output == *"the snapshot of $HOME_DIR/train has 5 files"*'with changes'* ]]
    prints_nothing as_user find "$HOME_DIR/records" -name snapshot
    run -0 batchai_with "HOME=$HOME_DIR" job create --name snapshot --config-file snapshot.json --output none -- --hold
    [[ $output == *'away is a link with an absolute path'* ]]
    as_user bash -c "printf '#!/bin/sh\necho changed\n' > $HOME_DIR/train/run.sh"
    as_user scontrol release "$(show snapshot | jq -r .slurmJobId)"
    batchai job wait --name snapshot
    [[ $(output_of snapshot) == $'submitted\n.gitignore\naway\ninside\nnew.txt\nrun.sh\n750' ]]
    show snapshot | jq -e --arg commit "$(as_user git -C "$HOME_DIR/train" rev-parse HEAD)" '.snapshot.made |
        .commit == $commit and .branch == "main" and .dirty and .files == 5
        and .remote == "https://git.example.org/alice/train.git"'
    prints_nothing as_user find "$HOME_DIR/records" -type f -exec grep -sl hush-0815 '{}' ';'
    as_user find "$HOME_DIR/records" -name snapshot.patch -exec grep -x '+echo submitted' '{}' ';' | grep -q .
}

# Breaks when a relative command, or the script of a toolkit, runs the original.
@test "the directory where a job is submitted, and the script, are those of the copy" {
    as_user bash -c "mkdir -p $HOME_DIR/plain/deep && cd $HOME_DIR/plain && echo 'import os; print(os.getcwd(), __file__)' > deep/train.py && echo old > deep/text"
    jq -n '{properties: {nodeCount: 1, stdOutErrPathPrefix: "/shared/logs", slurm: {begin: "now+2seconds"},
        horovodSettings: {pythonScriptFilePath: "deep/train.py"}}}' | write_home plain/job.json
    as_user bash -c "cd $HOME_DIR/plain && BATCHAI_HOME=$HOME_DIR/records $PREFIX/bin/batchai job create -n script -f job.json --snapshot=. --output none"
    as_user bash -c "echo 'print(0)' > $HOME_DIR/plain/deep/train.py"
    batchai job wait --name script
    local copy
    copy=$(show script | jq -r .snapshot.made.directory)
    [[ $copy == "$HOME_DIR/records/"*/snapshot ]]
    [[ $(output_of script) == "$copy $copy/deep/train.py" ]]
    show script | jq -e '.snapshot.made.commit == null'
}

# Breaks when a key is copied because it is written with another path than the snapshot's.
@test "the file of a secret is in no snapshot and in no patch, whatever path leads to it" {
    as_user bash -c "mkdir $HOME_DIR/keyed && ln -s keyed $HOME_DIR/way && cd $HOME_DIR/keyed && umask 077 &&
        echo old > token && echo old > code && git init -q && git add . &&
        git -c user.name=alice -c user.email=alice@example.org commit -q -m first &&
        echo hush-5353 > token && echo new > code"
    jq -n --arg home "$HOME_DIR" '{snapshot: {directory: ($home + "/keyed")},
        secrets: [{name: "TOKEN", fromFile: ($home + "/way/token")}]}' |
        job_file keyed 'cd $AZ_BATCHAI_JOB_SNAPSHOT && ls && [ ${#TOKEN} = 9 ]'
    runs_to_its_end keyed
    [[ $(output_of keyed) == code ]]
    local patch
    patch=$(as_user find "$HOME_DIR/records" -name snapshot.patch -exec grep -l '^+new$' '{}' ';')
    [[ -n $patch ]]
    prints_nothing as_user find "$HOME_DIR/records" -type f -not -name secrets.json -exec grep -sl hush-5353 '{}' ';'
}

# Breaks when a snapshot fills the file system, or leads elsewhere than the original.
@test "what cannot be a snapshot is refused before anything is made" {
    as_user bash -c "mkdir -p $HOME_DIR/big/weights && cd $HOME_DIR/big && truncate -s 3M weights/a && truncate -s 1M b && : > c"
    echo '{"snapshot": {"directory": "big", "maxSize": "2m"}}' | job_file big true
    run batchai job create --name big --config-file big.json
    [[ $status -eq 3 && $output == *'the snapshot would have 4.0 MiB, more than 2.0 MiB; the largest parts are weights/ (3.0 MiB), b (1.0 MiB)'* ]]
    echo '{"snapshot": {"directory": "big", "maxFiles": 2}}' | job_file big true
    run batchai job create --name big --config-file big.json
    [[ $status -eq 3 && $output == *'3 files, more than 2'* ]]
    as_user ln -s ../records "$HOME_DIR/big/out"
    echo '{"snapshot": {"directory": "big"}}' | job_file big true
    run batchai job create --name big --config-file big.json
    [[ $status -eq 3 && $output == *'out is a link to ../records, which leads out of the directory'* ]]
    echo '{"snapshot": {"directory": "none"}}' | job_file big true
    run batchai job create --name big --config-file big.json
    [[ $status -eq 3 && $output == *'cannot read the directory'* ]]
    prints_nothing as_user find "$HOME_DIR/records" -path '*jobs/big*'
}

# Breaks when a repository can have programs run, or when bob's repository is asked.
@test "git runs nothing that a repository names, and a repository of somebody else is not used" {
    make_project
    as_user bash -c "cd $HOME_DIR/train && printf '#!/bin/sh\ntouch $HOME_DIR/ran\nexit 1\n' > $HOME_DIR/evil && chmod 755 $HOME_DIR/evil &&
        git config core.fsmonitor $HOME_DIR/evil && git config diff.external $HOME_DIR/evil && git config core.pager $HOME_DIR/evil &&
        git config diff.x.textconv $HOME_DIR/evil && git config diff.x.command $HOME_DIR/evil && echo '* diff=x' > .gitattributes &&
        cp $HOME_DIR/evil .git/hooks/post-index-change"
    page_block 4 | job_file evil true
    run -0 batchai_with "HOME=$HOME_DIR GIT_EXTERNAL_DIFF=$HOME_DIR/evil" job create --name evil --config-file evil.json --dry-run
    [[ $output == *'the snapshot of'*'git commit'* ]]
    prints_nothing as_user find "$HOME_DIR" -maxdepth 1 -name ran
    # A submodule at another commit has a configuration of its own, and git would start a diff in it.
    as_user bash -c "cd $HOME_DIR/train && g() { git -c core.fsmonitor=false -c core.hooksPath=/dev/null \"\$@\"; }
        set -e; in_sub='-C sub -c user.name=a -c user.email=a@b'
        g init -q sub; g config advice.addEmbeddedRepo false; g \$in_sub commit -q --allow-empty -m 1; g add sub; g commit -q -m sub
        echo x > sub/file; g \$in_sub add file; g \$in_sub commit -q -m 2
        g -C sub config diff.external $HOME_DIR/evil; g config diff.submodule diff"
    prints_nothing as_user find "$HOME_DIR" -maxdepth 1 -name ran
    run -0 batchai_with "HOME=$HOME_DIR" job create --name evil --config-file evil.json --dry-run
    [[ $output == *'the snapshot of'*'with changes'* ]]
    prints_nothing as_user find "$HOME_DIR" -maxdepth 1 -name ran
    # A partial clone fetches what it lacks, here by a program.
    as_user bash -c "cd $HOME_DIR/train && g() { git -c core.fsmonitor=false -c core.hooksPath=/dev/null \"\$@\"; }
        set -e; blob=\$(g rev-parse HEAD:run.sh); rm -f .git/objects/\${blob:0:2}/\${blob:2}
        g config core.repositoryformatversion 1; g config extensions.partialClone origin
        g config remote.origin.promisor true; g config protocol.ext.allow always
        g config remote.origin.url 'ext::$HOME_DIR/evil'"
    prints_nothing as_user find "$HOME_DIR" -maxdepth 1 -name ran
    run -0 batchai_with "HOME=$HOME_DIR" job create --name evil --config-file evil.json --dry-run
    echo "$output"
    prints_nothing as_user find "$HOME_DIR" -maxdepth 1 -name ran
    as_root_on login install -d -m 755 -o bob /shared/of-bob
    as_bob git init -q /shared/of-bob
    as_root_on login install -d -o alice /shared/of-bob/mine
    as_user git config --global --add safe.directory '*'
    echo '{"snapshot": {"directory": "/shared/of-bob/mine"}}' | job_file ofbob true
    run -0 batchai job create --name ofbob --config-file ofbob.json --dry-run
    as_user git config --global --unset-all safe.directory
    as_root_on login rm -rf /shared/of-bob
    [[ $output == *'all files are copied, because git cannot be asked'*'dubious ownership'* ]]
}

# listen [CERT KEY]: starts a listener on the login host as alice; sets port, and listener to its id.
listen() {
    as_user bash -c "rm -rf $HOME_DIR/heard $HOME_DIR/port; mkdir $HOME_DIR/heard"
    as_user setsid -f /usr/bin/python3 "$HOME_DIR/listener.py" "$HOME_DIR/port" "$HOME_DIR/heard" "$@" < /dev/null > /dev/null 2>&1 3>&- 4>&-
    wait_until 60 as_user test -s "$HOME_DIR/port"
    port=$(as_user cat "$HOME_DIR/port")
}
stop_listening() { as_user bash -c "kill \$(cat $HOME_DIR/port.pid)"; }
heard() { as_user test -s "$HOME_DIR/heard/$1"; }

# Breaks when the end of a job is not told, when it is told in the clear, or when the token in the URL
# is in an argument, a log or a record.
@test "the end of a job is sent to the webhook of the page, over TLS" {
    write_home listener.py < "$SOURCE/tests/integration/surroundings/listener.py"
    as_user bash -c "cd $HOME_DIR && mkdir -p keys && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout tls.key -out tls.crt \
        -subj /CN=login -addext subjectAltName=DNS:login 2> /dev/null"
    listen "$HOME_DIR/tls.crt" "$HOME_DIR/tls.key"
    as_user bash -c "umask 077; echo https://login:$port/hush-2342 > $HOME_DIR/keys/webhook"
    page_block 5 | jq '.notification.webhook.format = "json"' | job_file told 'echo "KeyError: <!channel> a" >&2; exit 3'
    # A .curlrc of the user changes nothing.
    as_user sh -c "echo '--insecure' > $HOME_DIR/.curlrc"
    run batchai_with "HOME=$HOME_DIR CURL_CA_BUNDLE=$HOME_DIR/tls.crt" job create --name told --config-file told.json --output none
    [[ $status -eq 0 ]]
    run batchai job wait --name told
    [[ $status -eq 3 ]]
    wait_until 60 heard hush-2342
    as_user cat "$HOME_DIR/heard/hush-2342" | jq -e '.job == "told" and .state == "failed" and .exitCode == 3 and .attempt == 1
        and .endedBy == "program" and .durationSeconds >= 0 and .failure.rank == 0
        and .failure.firstErrorLine == "KeyError: <!channel> a"
        and (.text | startswith("Job told (Slurm job")) and (.text | endswith("KeyError: &lt;!channel&gt; a"))'
    # A certificate that nobody has signed is not accepted; the job's exit code stays.
    page_block 5 | job_file untold 'exit 4'
    batchai_with "HOME=$HOME_DIR" job create --name untold --config-file untold.json --output none
    run batchai job wait --name untold
    [[ $status -eq 4 ]]
    wait_until 60 log_says untold 'the webhook was not told that the job has ended: its certificate'
    stop_listening
    prints_nothing lines_unlike '/(secrets.json|keys/webhook)$' as_user find "$HOME_DIR" /shared/logs -type f -exec grep -sl hush-2342 '{}' ';'
    run batchai job show --name told
    [[ $output != *hush-2342* && $output == *keys/webhook* ]]
}

# Breaks when the site's word on http is not asked for, when a redirection is followed, or when a
# webhook that does not answer changes the end of the job.
@test "a webhook without TLS needs the site's permission; what goes wrong is only a line in the log" {
    write_home listener.py < "$SOURCE/tests/integration/surroundings/listener.py"
    listen
    echo '{"notification": {"webhook": {"url": "http://login:1/hush-2343", "format": "text"}}}' | job_file clear true
    run batchai job create --name clear --config-file clear.json
    [[ $status -eq 3 && $output == *E133* && $output == *'begins with http://'* && $output != *hush* ]]
    write_home site.lua <<< 'return { webhooks_over_http = true, exclusive = false }'
    local name end host
    for name in heard moved refused; do
        echo '{"notification": {"webhook": {"url": "http://login:'"$port/$name"'", "format": "text"}}}' | job_file "web$name" true
        batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua" job create --name "web$name" --config-file "web$name.json" --output none
    done
    echo '{"notification": {"webhook": {"url": "http://login:1/hush-2343"}}}' | job_file webnobody true
    batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua" job create --name webnobody --config-file webnobody.json --output none
    echo '{"notification": {"webhook": {"url": "http://login:'"$port"'/quiet", "onlyFailures": true}}}' | job_file webquiet true
    batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua" job create --name webquiet --config-file webquiet.json --output none
    echo '{"watch": {"silence": "PT10S"}, "notification": {"webhook": {"url": "http://login:'"$port"'/alarm"}}}' | job_file webalarm 'sleep 307 || true'
    batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua" job create --name webalarm --config-file webalarm.json --output none
    for name in heard moved refused nobody quiet; do batchai job wait --name "web$name"; done
    wait_until 60 heard heard
    end=$(as_user cat "$HOME_DIR/heard/heard")
    jq -e '(keys == ["text"]) and (.text | test("^Job webheard \\(Slurm job [0-9]+\\) has succeeded after [0-9]+ s$"))' <<< "$end"
    wait_until 60 log_says webmoved 'redirection (HTTP status 307), which is not followed'
    wait_until 60 log_says webrefused 'it answered with HTTP status 500'
    wait_until 60 log_says webnobody 'it refuses the connection'
    # An alarm is told while the job runs, and then its end.
    wait_until 120 heard alarm
    # It has stood still for long enough, however late that was noticed.
    for host in h1 h2 h3 h4; do as_root_on "$host" sh -c 'pkill -u alice -fx "sleep 307" || true'; done
    as_user cat "$HOME_DIR/heard/alarm" | jq -es '.[0] | .state == "running" and .job == "webalarm" and
        (.alarm.message | startswith("the ranks have printed nothing and done nothing"))'
    batchai job wait --name webalarm
    wait_until 60 log_says webalarm 'the webhook was told of the alarm'
    wait_until 60 log_says webalarm 'the webhook was told that the job has ended'
    as_user cat "$HOME_DIR/heard/alarm" | jq -es 'map(.state) == ["running", "succeeded"]'
    [[ $(as_user ls "$HOME_DIR/heard" | sort | tr '\n' ' ') == 'alarm heard moved refused ' ]]
    stop_listening
}
