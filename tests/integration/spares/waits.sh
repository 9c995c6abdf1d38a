# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# A process of the kind that is given says which one it is, and what it knows, and waits to be told to end.
set -eu
start=${SLURM_RESTART_COUNT:-0}
name=$start-$1-$SLURM_PROCID
echo "$SLURMD_NODENAME ${TF_CONFIG:-$(cat /etc/made-for)}" > "$PLACE/said-$name"
touch "$PLACE/there-$name"
until [ -e "$PLACE/stop" ]; do
    [ ! -e "$PLACE/fail-$name" ] || exit 1
    sleep 0.2
done
