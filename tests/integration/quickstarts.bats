#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The quick starts in docs/, command by command, as a user types them: each page is the test.
#
# What a page has to look like:
#   - A block marked ```console has commands after "$ " and below each what it prints, both outputs
#     together. A command must succeed. Every line that is shown must be printed, in any order, as
#     ranks print in any order; no other line may be, unless a line of "…" alone is shown. In a line,
#     "…" is any text. What a command exports, the next ones have.
#   - Other blocks are files: the line before the block ends with the file's name in backticks and a
#     colon. It is written where the commands run; an absolute path is written by root.
#   - A block marked ```sh has commands of root, and prints nothing that counts. They run on login,
#     whose /etc/slurm and /etc/batchai all hosts of the test cluster share.
# A block of another kind fails the test. /opt/batchai stands for the installed tree.
#
# Not run: the block that builds with cmake, and `systemctl restart slurmd`, because the hosts have no
# systemd. A slurmd keeps the hooks that it has found at its start.

bats_require_minimum_version 1.5.0
load lib

setup() {
    make_home "quickstart-$BATS_TEST_NUMBER"
    steps=$BATS_TEST_TMPDIR/steps
}

teardown() {
    restore
    cancel_jobs
    wait_until 60 nothing_is_queued
    remove_home
}

# take_apart PAGE: the steps of docs/PAGE in their order, as files in $steps: NUMBER.command with
# NUMBER.shown, NUMBER.root, NUMBER.file with NUMBER.name.
take_apart() {
    rm -rf "$steps"
    mkdir "$steps"
    awk -v steps="$steps" '
        function part(kind) { return sprintf("%s/%03d.%s", steps, number, kind) }
        function wrong(what) { print FILENAME ":" FNR ": " what; bad = 1; exit }
        /^```/ && kind == "" {
            kind = substr($0, 4)
            if (kind == "sh") { ++number; target = part("root") }
            else if (kind != "console") {
                if (before !~ /`[^` ]+`:$/) wrong("nobody says what this block is")
                sub(/`:$/, "", before)
                sub(/.*`/, "", before)
                ++number
                print before > part("name")
                kind = "file"
                target = part("file")
            }
            else target = ""
            next
        }
        /^```/ { kind = before = ""; next }
        kind == "console" && /^\$ / {
            ++number
            print substr($0, 3) > part("command")
            target = part("shown")
            printf "" > target
            next
        }
        kind == "console" && target == "" { wrong("there is no command before this output") }
        kind != "" { print > target; next }
        NF { before = $0 }
        END { if (kind != "" && !bad) { print FILENAME ": a block has no end"; bad = 1 } exit bad }
    ' "$SOURCE/docs/$1"
    # Where the product is.
    find "$steps" -type f -exec sed -i "s|/opt/batchai|$PREFIX|g" {} +
}

# type_it COMMAND: what a user in HOME_DIR gets who has typed the commands before. The home directory
# is a new one, so that ~/.batchai is empty. stdin is the user's keyboard, on which nobody types.
type_it() {
    # shellcheck disable=SC2016 # for the inner shell
    as_user bash -c 'export HOME=$1
        cd ~ && touch .exported && . ./.exported
        eval "$2" < /dev/null
        code=$?
        export -p > .exported
        exit "$code"' type_it "$HOME_DIR" "$1" 2>&1
}

# without_chance: standard input without what Slurm says only if nodes are not free yet or have a
# prolog, if the controller is faster than salloc, or in some releases.
without_chance() {
    local by_chance='Pending job allocation [0-9]+|job [0-9]+ queued and waiting for resources|'
    by_chance+='job [0-9]+ has been allocated resources|Job allocation [0-9]+ has been revoked\.|'
    by_chance+='Waiting for resource configuration|Nodes [^ ]+ are ready for job'
    grep -vxE "(srun|salloc): ($by_chance)" || [[ $? -eq 1 ]]
}

# printed_as_shown PRINTED SHOWN: two files. The pages show hosts that have the names of their nodes.
printed_as_shown() {
    local rest line pattern i others=no
    mapfile -t rest < <(without_chance < "$1" | with_node_names | sed 's/ *$//')
    while IFS= read -r line; do
        if [[ $line == … ]]; then
            others=yes
            continue
        fi
        pattern=$(sed 's/[][*?\\]/\\&/g; s/…/*/g' <<< "$line")
        for i in "${!rest[@]}"; do
            # shellcheck disable=SC2053 # it is a pattern
            if [[ ${rest[i]} == $pattern ]]; then
                unset 'rest[i]'
                continue 2
            fi
        done
        printf 'This line of the page is not printed:\n%s\n' "$line"
        return 1
    done < "$2"
    if [[ $others == no && ${#rest[@]} -gt 0 ]]; then
        echo "The page does not show:"
        printf '%s\n' "${rest[@]}"
        return 1
    fi
}

# are_free COUNT: for wait_until.
are_free() {
    local states
    states=$(as_user sinfo -h -N -p main -o %t) || return
    [[ $(grep -cx idle <<< "$states") -ge $1 ]]
}

# follow PAGE COMMANDS [NODES]: does all that docs/PAGE says, which has at least so many commands. Before
# each command so many nodes are free, all unless given.
follow() {
    local step base began count=0
    take_apart "$1"
    for step in "$steps"/*.{command,root,file}; do
        [[ -e $step ]] || continue
        echo "${step##*/}"
    done | sort > "$steps/order"
    while IFS= read -r -u 5 step; do
        base=$steps/${step%%.*}
        case $step in
            *.file) write_named "$(cat "$base.name")" < "$base.file" ;;
            *.root) as_admin "$base.root" ;;
            *.command)
                count=$((count + 1))
                wait_until 60 are_free "${3:-4}"
                began=$SECONDS
                run type_it "$(cat "$base.command")"
                printf '%s\n' "$output" > "$base.printed"
                [[ -n $output ]] || : > "$base.printed"
                printf '$ %s\n%s\n[exit code %s, %s s]\n' "$(cat "$base.command")" "$output" "$status" \
                    "$((SECONDS - began))"
                [[ $status -eq 0 ]]
                printed_as_shown "$base.printed" "$base.shown"
                ;;
        esac
    done 5< "$steps/order"
    [[ $count -ge $2 ]]
}

# write_named PATH: standard input to a file that a page names.
write_named() {
    case $1 in
        */site.lua) site_lua | as_root_on login sh -c 'cat > "$1"' write "$1" ;;
        /*) as_root_on login sh -c 'cat > "$1"' write "$1" ;;
        *) write_home "$1" ;;
    esac
}

# as_admin FILE: the commands of root in it.
as_admin() {
    if grep -q cmake "$1"; then return 0; fi
    # shellcheck disable=SC2016 # for the inner shell
    as_root_on login bash -c 'set -e; systemctl() { :; }; . /dev/stdin' < "$1"
}

# Breaks when a command of the page fails, or prints something else than the page shows.
@test "the quick start with a job file does what it says" {
    follow start-job-file.md 14
}

# Breaks when a command of the page fails, or prints something else than the page shows.
@test "the quick start for users of Slurm does what it says" {
    follow start-slurm.md 8
}

# Breaks when a command of the page fails, or prints something else than the page shows.
@test "the page about Slurm's options does what it says" {
    follow slurm-options.md 9
}

# Breaks when a command of the page fails, or prints something else than the page shows.
@test "the page about logs does what it says" {
    follow logs.md 9
}

# Breaks when a command of the page fails, or prints something else than the page shows.
@test "the page about what a job uses does what it says" {
    follow usage.md 3
}

# Breaks when a command of the page fails, or prints something else than the page shows.
@test "the page about sweeps does what it says" {
    follow sweeps.md 7
}

# Breaks when a command of the page fails, or prints something else than the page shows.
@test "the page about reaching into jobs does what it says" {
    follow reaching-in.md 7 2
}

# Breaks when a command of the page fails, or prints something else than the page shows.
@test "the page about jobs that stand still does what it says" {
    follow stuck.md 10 2
}

# Breaks when a command of the page fails, or prints something else than the page shows.
@test "the page about surroundings does what it says" {
    follow surroundings.md 7
}

# Breaks when a command of the page fails, or prints something else than the page shows.
@test "the page about clusters does what it says" {
    follow clusters.md 5
}

# Breaks when a command of the page fails.
@test "the page about the Azure CLI does what it says" {
    write_home cifar_cnn_distributed.py < "$SOURCE/examples/cifar10-keras/cifar_cnn_distributed.py"
    follow az.md 10
}

# The test cluster is set up as the page would do it. This takes that back, so that the page finds
# what an admin finds; restore, after each test, puts it in place again.
forget_batchai() {
    as_root_on login bash -c 'set -e
        mkdir /tmp/before-quickstart
        cp -p /etc/slurm/slurm.conf /etc/slurm/cli_filter.lua /etc/slurm/plugstack.conf.d/batchai.conf /tmp/before-quickstart
        sed -i /^CliFilterPlugins=/d /etc/slurm/slurm.conf
        rm /etc/slurm/cli_filter.lua /etc/slurm/plugstack.conf.d/batchai.conf'
}

restore() {
    local before
    before=$(as_root_on login find /tmp -maxdepth 1 -name before-quickstart)
    [[ -n $before ]] || return 0
    as_root_on login bash -c 'set -e
        cd /tmp/before-quickstart
        rm -f /etc/slurm/plugstack.conf.d/batchai.conf
        cp -p cli_filter.lua /etc/slurm/
        cp -p batchai.conf /etc/slurm/plugstack.conf.d/
        cat slurm.conf > /etc/slurm/slurm.conf
        scontrol reconfigure
        rm -rf /tmp/before-quickstart /shared/myshare'
    reset_site
    restart_slurmds
}

has_option() { as_user srun --help | grep -q -e --job-json; }

# Breaks when the page leaves out a file or gets their order wrong, so that Slurm refuses jobs; when
# its site.lua is refused; or when something is left after the removal.
@test "the quick start for admins installs, checks and removes the plugin" {
    if site_has configless; then skip "hosts have no /etc/slurm here: configless.bats follows the page for them"; fi
    has_option
    forget_batchai
    run ! has_option
    follow start-admin.md 8
    # The removal is the last that the page says.
    prints_nothing as_root_on login find /etc/batchai /etc/slurm \
        -name site.lua -o -name cli_filter.lua -o -name batchai.conf
    prints_nothing lines_like ^CliFilterPlugins as_root_on login cat /etc/slurm/slurm.conf
}
