#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Sets up a job's "software" on one node, in a task of its own, and reports which variables that has
# changed. Everything from the job file comes as an argument, and nothing of it is read as a command:
#   REPORT PLANNED-TEMP PYTHON [WORD VALUE]…
# Writes beside REPORT.<task>: .log (what the tools print), .fault (one line; only after a failure),
# .env ("NAME=value", or "NAME" for a variable that is gone) and .facts, both with zero bytes between
# their entries.
# The scripts of modules and environments do not expect `set -eu`.

report=$1.$SLURM_PROCID planned=$2 python=$3
shift 3
node=${SLURMD_NODENAME:-$HOSTNAME}
umask_before=$(umask)
umask 077
exec > "$report.log" 2>&1 < /dev/null
umask "$umask_before"

fail() {
    printf '%s\n' "$1" > "$report.fault"
    printf '%s\n' "$1"
    exit 1
}

# The line of $report.said that says what is wrong.
first_line_said() {
    local line first='' begun=''
    while IFS= read -r line; do
        line=${line#"${line%%[![:space:]]*}"}
        [[ -n $line && $line != Loading\ * ]] || continue
        if [[ -n $begun ]]; then
            printf '%s %s' "$begun" "$line"
            return
        fi
        if [[ $line == *[Ee]rror* || $line == *ERROR* ]]; then
            # Lmod says "Lmod has detected the following error: The … are unknown:", and what on
            # the next line.
            line=${line##*following error:}
            line=${line#ERROR:}
            line=${line# }
            begun=$line
            [[ $line == *: ]] && continue
            break
        fi
        first=${first:-$line}
    done < "$report.said"
    printf '%s' "${begun:-$first}"
}

# A variable names a directory of the node, because it may be elsewhere than planned.
on_node() {
    case $1 in
        "$planned"/*) printf '%s' "$AZ_BATCHAI_JOB_TEMP${1#"$planned"}" ;;
        *) printf '%s' "$1" ;;
    esac
}

has_module() { type module > /dev/null 2>&1; }

# Only interactive shells and login shells have the command.
want_module() {
    local init path
    has_module && return
    for init in "${MODULESHOME:+$MODULESHOME/init/bash}" "${LMOD_PKG:+$LMOD_PKG/init/bash}" \
        /usr/share/modules/init/bash /usr/share/lmod/lmod/init/bash \
        /etc/profile.d/modules.sh /etc/profile.d/lmod.sh /etc/profile.d/z00_lmod.sh; do
        [[ -n $init && -r $init ]] || continue
        # shellcheck source=/dev/null
        . "$init"
        has_module && return
    done
    if [[ -r /etc/profile ]]; then
        path=$PATH
        # shellcheck source=/dev/null
        . /etc/profile
        PATH=$path
    fi
    has_module || fail "modules: there is no \`module\` command on $node"
}

# module_command WHAT WORD…: runs `module WORD…`.
module_command() {
    local what=$1 code said
    shift
    module "$@" 2> "$report.said"
    code=$?
    cat "$report.said"
    ((code != 0)) || return 0
    said=$(first_line_said)
    fail "$what on $node: ${said:-exit code $code}"
}

load_module() {
    local name=$1 said
    module load "$name" 2> "$report.said"
    local code=$?
    cat "$report.said"
    if ((code == 0)); then
        # The oldest versions of the command report no failure.
        case ":$LOADEDMODULES:" in *":$name:"* | *":$name/"*) return ;; esac
        grep -q 'ERROR\|Unable to locate' "$report.said" || return
    fi
    said=$(first_line_said)
    fail "module $name: not available on $node: ${said:-exit code $code}; \`module avail\` there lists what is"
}

in_front_of_path() { PATH=$1/bin${PATH:+:$PATH}; }

# What an environment that was active in the submitting shell has left.
leave_others() { unset VIRTUAL_ENV VIRTUAL_ENV_PROMPT PYTHONHOME CONDA_PREFIX CONDA_DEFAULT_ENV; }

# As `conda activate` does, by the layout that conda documents, so that conda itself is not needed.
activate_conda() {
    local prefix=$1 name=$2 script
    [[ -d $prefix/conda-meta ]] ||
        fail "conda: $prefix is not an environment on $node: there is no directory conda-meta in it"
    leave_others
    export CONDA_PREFIX=$prefix CONDA_DEFAULT_ENV=$name CONDA_SHLVL=1
    in_front_of_path "$prefix"
    for script in "$prefix"/etc/conda/activate.d/*.sh; do
        # shellcheck source=/dev/null
        [[ ! -r $script ]] || . "$script"
    done
}

# Where conda, mamba and micromamba keep environments by name.
find_conda() {
    local name=$1 root prefix roots=()
    # No here-string: before bash 5.1 it is a file, and there may be no directory to write it to.
    IFS=: read -r -a roots < <(printf '%s\n' "${CONDA_ENVS_PATH:-}:${CONDA_ENVS_DIRS:-}")
    [[ -z ${MAMBA_ROOT_PREFIX:-} ]] || roots+=("$MAMBA_ROOT_PREFIX/envs")
    [[ -z ${CONDA_EXE:-} ]] || roots+=("${CONDA_EXE%/bin/*}/envs")
    roots+=("$HOME/.conda/envs")
    for root in "${roots[@]}"; do
        [[ -n $root && -d $root/$name/conda-meta ]] || continue
        activate_conda "$root/$name" "$name"
        return
    done
    if [[ -r $HOME/.conda/environments.txt ]]; then
        while IFS= read -r prefix; do
            [[ ${prefix##*/} == "$name" && -d $prefix/conda-meta ]] || continue
            activate_conda "$prefix" "$name"
            return
        done < "$HOME/.conda/environments.txt"
    fi
    fail "conda: there is no environment \"$name\" on $node; give its \"prefix\" instead"
}

activate_venv() {
    [[ -x $1/bin/python && -r $1/pyvenv.cfg ]] ||
        fail "venv: $1 is not a virtual environment on $node; \`python3 -m venv $1\` makes one"
    leave_others
    export VIRTUAL_ENV=$1
    in_front_of_path "$1"
}

uv_project='' uv_options=()
sync_uv() {
    local said code
    type -P uv > /dev/null || fail "uv: there is no program uv on the PATH of the job on $node"
    [[ -r $uv_project/uv.lock ]] ||
        fail "uv: $uv_project has no uv.lock on $node; \`uv lock\` there makes one"
    leave_others
    export UV_PROJECT_ENVIRONMENT=$AZ_BATCHAI_JOB_TEMP/uv-$SLURM_JOB_ID
    uv sync --frozen --no-progress --project "$uv_project" "${uv_options[@]}" 2> "$report.said"
    code=$?
    cat "$report.said"
    if ((code != 0)); then
        said=$(first_line_said)
        fail "uv: \`uv sync --frozen\` of $uv_project on $node: ${said:-exit code $code}"
    fi
    activate_venv "$UV_PROJECT_ENVIRONMENT"
}

# What the job's own settings or Slurm decide, and secrets, which must not be in the report.
declare -A secret=()
is_not_ours() {
    case $1 in
        _ | SHLVL | PWD | OLDPWD | HOME | USER | LOGNAME | SLURM* | _SLURM* | SPANK* | PMI* | \
            BATCHAI_* | AZ_BATCH* | AZURE_BATCHAI*) return 0 ;;
    esac
    [[ -n ${secret["$1"]+set} ]]
}

# The environment of programs that are started now, as `env -0` prints it. An image may have no env.
environment() {
    # shellcheck disable=SC2016 # for the inner shell
    "$BASH" -p -c 'while IFS= read -r -d "" entry; do printf "%s\0" "$entry"; done < /proc/self/environ'
}

declare -A before=() after=()
while IFS= read -r -d '' entry; do before["${entry%%=*}"]=${entry#*=}; done < <(environment)
((${#before[@]} > 0)) || fail "the variables of the job cannot be read on $node: is there no /proc?"

while (($# >= 2)); do
    word=$1 value=$2
    shift 2
    case $word in
        secret) secret["$value"]=1 ;;
        purge) want_module && module_command 'module purge' purge ;;
        module-path) want_module && module_command 'module use' use "$(on_node "$value")" ;;
        module) want_module && load_module "$value" ;;
        conda-prefix) activate_conda "$(on_node "$value")" "$(on_node "$value")" ;;
        conda-name) find_conda "$value" ;;
        venv) activate_venv "$(on_node "$value")" ;;
        uv) uv_project=$(on_node "$value") ;;
        uv-extra) uv_options+=(--extra "$value") ;;
        uv-group) uv_options+=(--group "$value") ;;
        *) fail "batchai: the parts of this installation are from different versions ($word)" ;;
    esac
done
[[ -z $uv_project ]] || sync_uv

umask 077
while IFS= read -r -d '' entry; do
    name=${entry%%=*}
    after["$name"]=1
    is_not_ours "$name" && continue
    [[ -n ${before["$name"]+set} && ${before["$name"]} == "${entry#*=}" ]] || printf '%s\0' "$entry"
done < <(environment) > "$report.env"
for name in "${!before[@]}"; do
    is_not_ours "$name" || [[ -n ${after["$name"]+set} ]] || printf '%s\0' "$name"
done >> "$report.env"

python=$(type -P -- "$(on_node "$python")")
{
    printf 'python=%s\0' "$python"
    [[ -z $python ]] ||
        printf 'pythonVersion=%s\0' "$("$python" -c 'import sys; print(sys.version.split()[0])')"
    if [[ -n $uv_project ]] && type -P sha256sum > /dev/null; then
        sum=$(sha256sum < "$uv_project/uv.lock")
        printf 'uvLock=%s\0' "${sum%% *}"
    fi
    # What the submitting shell had loaded counts as well.
    printf '%s\0' "modules=${LOADEDMODULES:-}" "conda=${CONDA_PREFIX:-}" "venv=${VIRTUAL_ENV:-}"
    printf 'done=1\0'
} > "$report.facts"
