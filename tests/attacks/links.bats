#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# alice has a link of her own, ~/scratch, to a place below a directory to which everybody can write. There
# bob has made a link to her private directory. Her job and her commands must not follow it.

bats_require_minimum_version 1.5.0
load ../integration/lib

share=/shared/attacks-links

setup_file() {
    make_home attacks-links
    as_root_on login install -d -m 1777 "$share"
    as_user bash -c "mkdir -p $HOME_DIR/private/public && ln -s $share/of-alice $HOME_DIR/scratch &&
        umask 077 && echo hush > $HOME_DIR/private/key"
    as_bob ln -s "$HOME_DIR/private" "$share/of-alice"
    write_home site.lua << LUA
return { storage_accounts = { scratch = { file_share_directory = "$HOME_DIR/scratch/%s" } } }
LUA
}
teardown_file() {
    end_jobs || return
    as_root_on login rm -rf "$share"
    remove_home
}

# is_refused: the command of \`run\` has said why.
is_refused() {
    echo "$output"
    [[ $status -ne 0 && $output == *"$share/of-alice"*"is a symbolic link in a directory to which others can write"* ]]
}

# job PROPERTIES: the job file job.json.
job() {
    jq -n --argjson more "$1" '{properties: ({nodeCount: 1, stdOutErrPathPrefix: "/shared/attacks-links",
        customToolkitSettings: {commandLine: "true"}} + $more)}' | write_home job.json
}

# Breaks when only the first link is looked at, and the kernel follows the others.
@test "bob cannot choose where an output directory behind alice's own link is" {
    job '{"outputDirectories": [{"id": "MODEL", "pathPrefix": "'"$HOME_DIR"'/scratch/made"}]}'
    create job
    run batchai job wait --name job
    is_refused
    prints_nothing as_user find "$HOME_DIR/private" -name made
}

# Breaks when the file of a secret is looked for where bob points.
@test "bob cannot choose which file of alice's behind her own link a secret is read from" {
    job '{"secrets": [{"name": "KEY", "fromFile": "'"$HOME_DIR"'/scratch/key"}]}'
    run batchai job create --name secret --config-file job.json
    is_refused
}

# Breaks when a share is opened where bob points.
@test "bob cannot choose where a share behind alice's own link is" {
    echo text | write_home text
    run as_user env "BATCHAI_HOME=$HOME_DIR/records" "BATCHAI_SITE=$HOME_DIR/site.lua" \
        "PATH=$PREFIX/libexec/batchai/az-drop-in:/usr/bin:/bin" \
        az storage file upload --account-name scratch --share-name public --source "$HOME_DIR/text"
    is_refused
    prints_nothing as_user find "$HOME_DIR/private/public" -type f
}
