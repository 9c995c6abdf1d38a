# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What the suites of examples/frameworks share. The job files are submitted as they are.

EXAMPLES=$SOURCE/examples/frameworks
SHARE=myshare/frameworks

# prepare_examples NAME PYTHON: a home with the scripts in its share, and a site whose python3 is this.
# What a job compiles is in that home, so that one which is ended meanwhile leaves no lock to the next.
prepare_examples() {
    make_home "$1"
    as_user mkdir -p "$HOME_DIR/$SHARE"
    write_home site.lua << LUA
return {
  environment = {
    PATH = "${2%/*}:/usr/local/bin:/usr/bin:/bin",
    TORCH_EXTENSIONS_DIR = "$HOME_DIR/torch-extensions",
  },
  storage_accounts = {
    mystorageaccount = { file_share_directory = "$HOME_DIR/%s" },
  },
}
LUA
    local script
    for script in "$EXAMPLES"/*.py; do write_home "$SHARE/${script##*/}" < "$script"; done
}

batchai() { batchai_with "BATCHAI_SITE=$HOME_DIR/site.lua" "$@"; }

# submit EXAMPLE [NAME FILTER]: the example's job file, or what the jq filter makes of it.
submit() {
    local name=${2:-$1}
    jq "${3:-.}" "$EXAMPLES/$1.json" | write_home "$name.json"
    create "$name"
}

# create NAME: submits the job file of that name.
create() {
    batchai job create --name "$1" --config-file "$1.json" \
        --storage-account-name mystorageaccount --output none
}

# trains NAME RANKS: the job ends well, each of its ranks was there once, half of them on each of two
# hosts, and all of them have the same loss, which is below half of that of the beginning.
trains() {
    local code=0 printed losses
    wait_past_gloo "$1" || code=$?
    # The files of a job that still runs would be followed until time is up again.
    ((code != 124)) || return "$code"
    batchai job file stream --job "$1" --file-name stderr.txt || true
    # torchrun's workers write the end of a line by itself, so that lines can become one.
    printed=$(output_of "$1" | with_node_names | sed -E 's/(rank [0-9]+ of )/\n\1/g') || return
    echo "$printed"
    ((code == 0)) || return "$code"
    diff <(seq 0 $(($2 - 1))) \
        <(sed -nE "s/^rank ([0-9]+) of $2 on h[1-4]: loss .*/\1/p" <<< "$printed" | sort -n) || return
    diff <(printf '%s\n' $(($2 / 2)) $(($2 / 2))) \
        <(sed -nE 's/^rank .* on (h[1-4]): .*/\1/p' <<< "$printed" | sort | uniq -c | awk '{ print $1 }') ||
        return
    losses=$(sed -nE 's/^rank .*: loss //p' <<< "$printed" | sort -u)
    lines_are 1 "$losses" || return
    awk '{ exit !($1 > 0 && $3 >= 0 && $3 < 0.5 * $1) }' <<< "$losses"
}
