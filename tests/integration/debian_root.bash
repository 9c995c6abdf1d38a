# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Root file systems of Debian releases, made by debootstrap from its own mirror or that
# of DEBIAN_MIRROR. Needs lib.bash.

# A small package that is not in them, whose files are at hand.
debian_extra=hello

# debian_root SUITE PMIX_PACKAGE: prints the path of a squashfs file, on this machine. It is made once
# for each recipe, and kept in $BATCHAI_CACHE/debian.
debian_root() {
    local suite=$1 cache=${BATCHAI_CACHE:-/var/cache/batchai}/debian key root made
    key=$({ cat "${BASH_SOURCE[0]}" && printf '%s\n' "$@"; } | sha256sum | cut -c1-16)
    made=$cache/$suite-$key.sqsh
    if [[ ! -e $made ]]; then
        root=$cache/making-$suite
        rm -rf "$root"
        mkdir -p "$cache"
        debootstrap --variant=minbase --include="python3,$2" "$suite" "$root" \
            ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} > "$cache/$suite.log" 2>&1 || {
            tail -n 20 "$cache/$suite.log" >&2
            return 1
        }
        cp /etc/resolv.conf "$root/etc/resolv.conf"
        # Its package file stays where apt-get looks for it: the hosts of the test have no network.
        chroot "$root" apt-get install -q -y --download-only "$debian_extra" >> "$cache/$suite.log" 2>&1
        mksquashfs "$root" "$made.new" -quiet -no-progress -comp lz4 > /dev/null
        rm -f "$cache/$suite-"*.sqsh
        mv "$made.new" "$made"
        rm -rf "$root"
    fi
    echo "$made"
}
