# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Root file systems of Debian releases, made by debootstrap from the mirror that it chooses, or from
# DEBIAN_MIRROR; and of Ubuntu releases where UBUNTU_MIRROR names a mirror. Needs lib.bash.

# A small package that is not in them, whose files are at hand.
debian_extra=hello

# Ubuntu signs its releases with keys that Debian does not have.
ubuntu_keyring=pool/main/u/ubuntu-keyring/ubuntu-keyring_2021.03.26_all.deb
ubuntu_keyring_digest=0d0e7ed6b112f5d03eabf3c7eb01ebdacf9c57714b279e90495cfc58c8c4520f

# debian_root SUITE [PACKAGE…]: prints the path of a squashfs file, on this machine. It is made once
# for each recipe, and kept in $BATCHAI_CACHE/debian.
debian_root() { make_distribution_root "${DEBIAN_MIRROR:-}" "$@"; }

# debian_host_root SUITE [PACKAGE…]: the same, kept beside the others: the root of hosts, not an image.
debian_host_root() { root_kind=host- make_distribution_root "${DEBIAN_MIRROR:-}" "$@"; }

# debian_machine_root SUITE: the same: the root of a machine on which the tests themselves run.
debian_machine_root() { root_kind=machine- make_distribution_root "${DEBIAN_MIRROR:-}" "$@"; }

# ubuntu_root SUITE [PACKAGE…]: the same of Ubuntu, from UBUNTU_MIRROR.
ubuntu_root() {
    local mirror=${UBUNTU_MIRROR:?is the mirror of Ubuntu} keys
    keys=${BATCHAI_CACHE:-/var/cache/batchai}/debian/ubuntu-keys
    if [[ ! -d $keys ]]; then
        rm -rf "$keys.new"
        mkdir -p "$keys.new"
        /usr/lib/apt/apt-helper download-file "$mirror/$ubuntu_keyring" "$keys.new/keyring.deb" \
            "SHA256:$ubuntu_keyring_digest" > "$keys.log" 2>&1 || {
            cat "$keys.log" >&2
            return 1
        }
        dpkg-deb -x "$keys.new/keyring.deb" "$keys.new"
        mv "$keys.new" "$keys"
    fi
    make_distribution_root "$mirror" "$@" -- --components=main,universe \
        --keyring="$keys/usr/share/keyrings/ubuntu-archive-keyring.gpg"
}

# make_distribution_root MIRROR SUITE [PACKAGE…] [-- OPTION…]: with these options of debootstrap.
make_distribution_root() {
    local mirror=$1 suite=$2 cache=${BATCHAI_CACHE:-/var/cache/batchai}/debian key root made script=
    local packages=() options=(--variant=minbase)
    key=$({ cat "${BASH_SOURCE[0]}" && printf '%s\n' "$@"; } | sha256sum | cut -c1-16)
    local kind=${root_kind:-}
    made=$cache/$kind$suite-$key.sqsh
    shift 2
    while (($#)) && [[ $1 != -- ]]; do
        packages+=("$1")
        shift
    done
    options+=("${@:2}")
    if ((${#packages[@]})); then
        options+=(--include="$(IFS=,; echo "${packages[*]}")")
    fi
    if [[ ! -e $made ]]; then
        root=$cache/making-$kind$suite
        rm -rf "$root"
        mkdir -p "$cache"
        # All releases of Debian are made alike; debootstrap does not know the names of later ones.
        [[ -e /usr/share/debootstrap/scripts/$suite ]] || script=/usr/share/debootstrap/scripts/sid
        debootstrap "${options[@]}" "$suite" "$root" "$mirror" ${script:+"$script"} \
            > "$cache/$kind$suite.log" 2>&1 || {
            tail -n 20 "$cache/$kind$suite.log" >&2
            return 1
        }
        cp /etc/resolv.conf "$root/etc/resolv.conf"
        # Its package file stays where apt-get looks for it: the hosts of the test have no network.
        chroot "$root" apt-get install -q -y --download-only "$debian_extra" >> "$cache/$kind$suite.log" 2>&1
        mksquashfs "$root" "$made.new" -quiet -no-progress -comp lz4 > /dev/null
        rm -f "$cache/$kind$suite-"*.sqsh
        mv "$made.new" "$made"
        rm -rf "$root"
    fi
    echo "$made"
}
