# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# An image for tests, made from busybox and this machine's bash. Needs lib.bash.

# program_into ROOT PROGRAM…: with its libraries.
program_into() {
    local root=$1 program library
    shift
    for program in "$@"; do
        program=$(readlink -f "$(command -v "$program")")
        install -D "$program" "$root/usr/bin/${program##*/}"
        while read -r library; do
            install -D "$library" "$root$library"
        done < <(ldd "$program" 2> /dev/null | grep -o '/[^ ]*')
    done
}

# make_root ROOT: what an image has.
make_root() {
    local applet
    mkdir -p "$1"/{bin,dev,etc/apt/apt.conf.d,home,lib64,proc,root,run,sys,tmp,usr/bin,var}
    program_into "$1" busybox bash
    for applet in cat chown df env find grep id ls mkdir readlink rm sh sleep stat touch true; do
        ln -s ../usr/bin/busybox "$1/bin/$applet"
    done
    ln -s ../usr/bin/bash "$1/bin/bash"
    echo "root:x:0:0:root:/root:/bin/sh" > "$1/etc/passwd"
    echo "made for the test" > "$1/etc/made-for"
}

# pack ROOT PATH: as a squashfs file on the hosts.
pack() {
    mksquashfs "$1" "$BATS_FILE_TMPDIR/packed" -all-root -quiet -no-progress -noappend > /dev/null
    put "$BATS_FILE_TMPDIR/packed" "$2"
}
