# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Running a command in another root file system, such as debian_root.bash makes.

# Variables of the command, besides those that a login of root has: NAME=VALUE.
root_environment=()

# in_root ROOT [SOURCE[:TARGET]…] -- COMMAND…: in this directory of the machine, which the root must
# have, too. The directories SOURCE are seen there at TARGET, or at the same path. The command has
# namespaces of its own, so that what is mounted and started there ends with it.
# shellcheck disable=SC2016 # for the inner shell
in_root() {
    # The variables may have passwords of proxies: no command line that stays has them.
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        TERM="${TERM:-dumb}" LANG=C.UTF-8 "${root_environment[@]}" \
        unshare --mount --pid --fork --kill-child --propagation private bash -c '
        set -euo pipefail
        root=$1
        shift
        mount --bind "$root" "$root"
        mount --rbind /dev "$root/dev"
        mount --rbind /sys "$root/sys"
        mount -t proc proc "$root/proc"
        mount -t tmpfs -o mode=1777 tmp "$root/tmp"
        mount -t tmpfs -o mode=755 run "$root/run"
        while [[ $1 != -- ]]; do
            mkdir -p "$root${1#*:}"
            mount --bind "${1%%:*}" "$root${1#*:}"
            shift
        done
        shift
        mkdir -p "$root/.machine"
        cd "$root$PWD"
        pivot_root "$root" "$root/.machine"
        umount -l /.machine
        # This shell stays, as the process 1 that buries those whose parents have ended.
        code=0
        "$@" || code=$?
        exit "$code"
    ' - "$@"
}
