#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# scripts/docs: the web pages and the manual pages, made from a copy of the tree, with the environment
# of `scripts/setup --docs` in BATCHAI_CACHE. ctest sets SOURCE.

bats_require_minimum_version 1.5.0

setup_file() {
    export TREE=$BATS_FILE_TMPDIR/tree
    mkdir "$TREE"
    tar -C "$SOURCE" --exclude=./.git --exclude=./.cache --exclude='./build*' -c . | tar -C "$TREE" -x
}

# Breaks when a page has a fault that Sphinx reports, when it is not made, or when nothing is in it.
@test "web pages are made of all pages, and none is empty" {
    local page made text
    run "$TREE/scripts/docs" --output "$BATS_TEST_TMPDIR/site"
    ((status == 0)) || { echo "$output"; return 1; }
    for page in "$TREE"/docs/*.md "$TREE"/{README,CHANGELOG,CONTRIBUTING,SECURITY}.md; do
        made=$BATS_TEST_TMPDIR/site/${page#"$TREE"/}
        made=${made%.md}.html
        text=$(sed -n '/<article/,/<\/article>/p' "$made" | sed 's/<[^>]*>//g' | wc -w)
        ((text > 30)) || { echo "$made has $text words"; return 1; }
    done
    # The first page leads to the list of pages, which has each page in its navigation.
    grep -q 'url=docs/README.html' "$BATS_TEST_TMPDIR/site/index.html"
    for page in "$TREE"/docs/*.md; do
        page=${page##*/}
        [[ $page == README.md ]] || grep -q "class=\"toctree-l1\"><a class=\"reference internal\" href=\"${page%.md}.html\"" \
            "$BATS_TEST_TMPDIR/site/docs/README.html" || { echo "$page is not in the navigation"; return 1; }
    done
    # A file of the tree that is not a page can be fetched.
    grep -q 'href="\.\./_downloads/[^"]*/job.schema.json"' "$BATS_TEST_TMPDIR/site/docs/README.html"
}

# Breaks when Sphinx's warnings are not errors, or when pages with faults replace those without.
@test "a dead link, a dead anchor and an unlisted page fail, and leave the old pages" {
    mkdir "$BATS_TEST_TMPDIR/site"
    touch "$BATS_TEST_TMPDIR/site/.batchai-docs" "$BATS_TEST_TMPDIR/site/old.html"
    cp "$TREE/docs/logs.md" "$BATS_TEST_TMPDIR/logs.md"
    printf '\nSee [a page](no-such-page.md) and [a part](gpu.md#no-such-part).\n' >> "$TREE/docs/logs.md"
    printf '# A page\n\nNobody lists it.\n' > "$TREE/docs/unlisted.md"
    run "$TREE/scripts/docs" --output "$BATS_TEST_TMPDIR/site"
    mv "$BATS_TEST_TMPDIR/logs.md" "$TREE/docs/logs.md"
    rm "$TREE/docs/unlisted.md"
    echo "$output"
    ((status == 1))
    [[ $output == *"logs.md:"*"no-such-page.md"* ]]
    [[ $output == *"logs.md:"*"no-such-part"* ]]
    [[ $output == *"unlisted.md: WARNING: document isn't included in any toctree"* ]]
    [[ -e $BATS_TEST_TMPDIR/site/old.html ]]
    [[ $(ls -A "$BATS_TEST_TMPDIR") == site ]]
}

# Breaks when man or troff complain of a page, or when a page has no name, description or text.
@test "manual pages render without warnings" {
    local page names=()
    run "$TREE/scripts/docs" --man --output "$BATS_TEST_TMPDIR/man"
    ((status == 0)) || { echo "$output"; return 1; }
    for page in "$BATS_TEST_TMPDIR"/man/man*/*; do
        names+=("${page##*/}")
        LC_ALL=C.UTF-8 MANWIDTH=80 man -P cat --warnings -l "$page" \
            > "$BATS_TEST_TMPDIR/text" 2> "$BATS_TEST_TMPDIR/warnings"
        [[ ! -s $BATS_TEST_TMPDIR/warnings ]] || { cat "$BATS_TEST_TMPDIR/warnings"; return 1; }
        lexgrog "$page"
        grep -qx 'DESCRIPTION' "$BATS_TEST_TMPDIR/text"
        (($(wc -w < "$BATS_TEST_TMPDIR/text") > 300))
        # A link that is left as a link has an address in brackets after it.
        ! grep -nE '\.md>|<>' "$BATS_TEST_TMPDIR/text" || return 1
    done
    [[ ${names[*]} == "job.json.5 site.lua.5 batchai-errors.7 batchai-variables.7 batchai.so.8" ]]
}

# Breaks when --output removes what scripts/docs has not made.
@test "a directory with other files is refused" {
    mkdir "$BATS_TEST_TMPDIR/mine"
    touch "$BATS_TEST_TMPDIR/mine/letter.txt"
    run "$TREE/scripts/docs" --output "$BATS_TEST_TMPDIR/mine"
    ((status == 1))
    [[ $output == *"mine has other files"* ]]
    [[ -e $BATS_TEST_TMPDIR/mine/letter.txt ]]
    run "$TREE/scripts/docs" --no-such-option
    ((status == 2))
}
