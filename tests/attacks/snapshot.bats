#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bob makes directories of which alice's job takes a snapshot. What his repositories name must not run
# as alice, and must not keep her job from being submitted.

bats_require_minimum_version 1.5.0
load ../integration/lib

share=/shared/attacks-snapshot

setup_file() {
    make_home attacks-snapshot
    as_root_on login install -d -m 1777 "$share"
}
teardown_file() {
    as_root_on login rm -rf "$share"
    remove_home
}

# job NAME DIRECTORY: the description of a job with a snapshot of the directory.
job() {
    jq -n --arg directory "$2" '{properties: {nodeCount: 1, stdOutErrPathPrefix: "/shared/attacks-snapshot",
        snapshot: {directory: $directory},
        customToolkitSettings: {commandLine: "cat $AZ_BATCHAI_JOB_SNAPSHOT/data"}}}' | write_home "$1.json"
}

# bobs_archive: $share/archive.tar, a repository of bob's. Every file has a filter; all that its
# configuration can name writes to $share/ran who has run it.
bobs_archive() {
    as_bob bash -s "$share" << 'BOB'
set -e
mkdir -p "$1/made" && cd "$1/made"
printf '#!/bin/sh\nid -un >> %s/ran\ncat\n' "$1" > evil && chmod 755 evil
: > ../ran && chmod 666 ../ran
git init -q -b main . && git config user.name bob && git config user.email b@b
echo one > data && echo one > other && printf 'data filter=first diff=x\nother filter=sec=ond\n' > .gitattributes
git add . && git commit -qm first
echo two > data && echo two > other
cp evil .git/hooks/post-index-change && cp evil .git/hooks/reference-transaction
printf '[filter "sec=ond"]\n\tclean = %s/evil\n\tsmudge = %s/evil\n' "$PWD" "$PWD" > .git/further
for key in filter.first.clean filter.first.smudge filter.first.process diff.x.textconv diff.x.command \
    diff.external core.fsmonitor core.sshCommand core.pager core.editor core.askPass gpg.program \
    credential.helper uploadpack.packObjectsHook; do
    git config "$key" "$PWD/evil"
done
git config alias.diff "!$PWD/evil"
git config include.path further
tar -cf ../archive.tar .
BOB
}

# Breaks when git runs anything that an unpacked repository names, at a dry run or a submission.
@test "bob's archive with a repository runs nothing as alice" {
    bobs_archive
    as_user bash -c "mkdir -p $HOME_DIR/unpacked && tar -xf $share/archive.tar -C $HOME_DIR/unpacked"
    # It is now hers, and git itself would run it.
    as_user bash -c "cd $HOME_DIR/unpacked && git diff HEAD" > /dev/null
    [[ $(as_user cat "$share/ran") == *alice* ]]
    as_user bash -c ": > $share/ran"
    job archive "$HOME_DIR/unpacked"
    run -0 batchai job create --name archive --config-file archive.json --dry-run
    [[ $output == *'the snapshot of'*'with changes'* ]]
    prints_nothing as_user cat "$share/ran"
    create archive
    batchai job wait --name archive
    [[ $(output_of archive) == two ]]
    prints_nothing as_user cat "$share/ran"
    # The patch has the changes nevertheless.
    [[ $(as_user find "$HOME_DIR/records" -name snapshot.patch -exec grep -hx '+two' '{}' ';') == $'+two\n+two' ]]
}

# Breaks when git's refusal of a repository in the tree is taken for a fault of the whole.
@test "a repository of bob's in a shared tree does not keep alice from taking a snapshot" {
    as_user bash -c "cd $share && mkdir -m 1777 team && cd team && git init -q && echo mine > data &&
        git add data && git -c user.name=a -c user.email=a@b commit -qm first"
    as_bob bash -c "cd $share/team && mkdir his && cd his && git init -q && echo note > note"
    job team "$share/team"
    run -0 batchai job create --name team --config-file team.json --output none
    [[ $output == *'all files are copied, because git cannot be asked'*'dubious ownership'* ]]
    batchai job wait --name team
    [[ $(output_of team) == mine ]]
    as_user find "$HOME_DIR/records" -path '*/snapshot/his/note' | grep -q .
}
