#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The bundle of libmpi_bridge in containers, and the wire-up check there. Images are made here of
# busybox, bash and the machine's Python with the few modules that the tests import.

bats_require_minimum_version 1.5.0
load lib
load small_image

# Containers show the home directory.
share=/home/alice/inject-test

# python_into ROOT: with the modules that the script below imports.
python_into() {
    local root=$1 path library
    program_into "$root" /usr/bin/python3
    ln -s "$(basename "$(readlink -f /usr/bin/python3)")" "$root/usr/bin/python3"
    while read -r path; do
        install -D -m 644 "$path" "$root$path"
        [[ $path != *.so ]] || ldd "$path" | grep -o '=> /[^ ]*' | cut -c4- >> "$BATS_FILE_TMPDIR/libraries"
    done < <(PYTHONPATH=$PREFIX/lib/batchai/python /usr/bin/python3 -B -c '
import sys, horovod, mpi_bridge, sysconfig; sysconfig.get_config_var("MULTIARCH")
print(*(m.__file__ for m in list(sys.modules.values()) if getattr(m, "__file__", None)), sep="\n")' |
        grep -v "^$PREFIX")
    while read -r library; do
        [[ -e $root$library ]] || install -D "$library" "$root$library"
    done < <(sort -u "$BATS_FILE_TMPDIR/libraries")
    # Of the C library an image has all.
    for library in libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1; do
        install -D "/lib/x86_64-linux-gnu/$library" "$root/lib/x86_64-linux-gnu/$library"
    done
}

setup_file() {
    as_user rm -rf "$share"
    as_user mkdir "$share"
    local root=$BATS_FILE_TMPDIR/root
    make_root "$root"
    python_into "$root"
    pack "$root" "$share/python.sqsh"
    as_user bash -c "cat > $share/sum.py" << 'PYTHON'
import array, os, horovod, mpi_bridge

mpi_bridge.init()
values = array.array("f", [mpi_bridge.rank() + 1] * 5000)
mpi_bridge.allreduce(values, op=mpi_bridge.Op.SUM)
assert set(values) == {3.0}, set(values)
loaded = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
for name in ("libmpi_bridge.", "libpmix", "libevent_core", "libucp", "libc.so.6"):
    print(*sorted(path for path in loaded if name in path))
print("of", mpi_bridge.__file__, horovod.__file__)
print("environment", [name for name in os.environ if name in ("LD_LIBRARY_PATH", "PMIX_INSTALL_PREFIX")])
print("path", os.environ["PYTHONPATH"])
print(f"rank {mpi_bridge.rank()} of {mpi_bridge.size()}: sum 3")
PYTHON
    write_site ''
}

teardown_file() { as_user rm -rf "$share"; }

setup() { write_site ''; }

teardown() {
    cancel_jobs
    wait_until 60 nothing_is_queued
}

write_site() { site_lua <<< "return {$1}" | as_user bash -c "cat > $share/site.lua"; }
batchai() {
    as_user env "BATCHAI_HOME=$share/store" "BATCHAI_SITE=$share/site.lua" "$PREFIX/bin/batchai" "$@"
}

# job NAME IMAGE COMMAND [FILTER]: runs one rank on each of two nodes in the image, and waits.
job() {
    jq -n --arg image "$share/$2" --arg command "$3" --arg logs "$share/logs" "{properties: {
        nodeCount: 2, stdOutErrPathPrefix: \$logs,
        containerSettings: {imageSourceRegistry: {image: \$image}},
        customMpiSettings: {commandLine: \$command}}} | ${4:-.}" |
        as_user bash -c "cat > $share/$1.json"
    batchai job create --name "$1" --config-file "$share/$1.json" --output none
    batchai job wait --name "$1"
}

# said_by NAME: all that the job and its nodes have written.
said_by() {
    as_user bash -c "find $share/logs -path '*/jobs/$1/*' -name '*.*' -type f | sort | xargs tail -n +1"
}

failure_of() {
    batchai job show --name "$1" --query executionInfo.errors[0] --output json
}

# Breaks when libraries are missing inside, are the node's by accident, or shadow the image's.
@test "ranks of an image with nothing but Python reduce over two hosts" {
    job bare python.sqsh "python3 $share/sum.py" '.properties.environmentVariables =
        [{name: "PYTHONPATH", value: "/mine"}, {name: "BATCHAI_LINK_CHECK", value: "1"}]
        | .properties.jobPreparation = {commandLine: "id -u; ls /opt/batchai/lib
            touch /opt/batchai/new; echo > /opt/batchai/lib/libmpi_bridge.so.0; true"}' || true
    run said_by bare
    echo "$output"
    [[ $output == *"rank 0 of 2: sum 3"* && $output == *"rank 1 of 2: sum 3"* ]]
    [[ $output == *$'\n/opt/batchai/lib/libmpi_bridge.so.0\n/opt/batchai/lib/mpi_bridge/pmix/libpmix.so.2\n'* ]]
    [[ $output == *$'\n/opt/batchai/lib/mpi_bridge/pmix/libevent_core-2.1.so.7\n'* ]]
    [[ $output == *$'\n/opt/batchai/lib/mpi_bridge/libucp.so.0\n'?(/usr)$'/lib/x86_64-linux-gnu/libc.so.6\n'* ]]
    [[ $output == *"of /opt/batchai/lib/batchai/python/mpi_bridge/__init__.py /opt/batchai/"* ]]
    [[ $output == *"environment []"* && $output == *"path /opt/batchai/lib/batchai/python/mpi_bridge/hook:/mine:/opt/batchai/lib/batchai/python"* ]]
    [[ $output == *"$(pmi_words) wires 2 ranks in the container"* ]]
    [[ $output == *'1 link between 2 nodes carries '* ]]
    # Root in preparation, and still.
    [[ $output == *"/opt/batchai/new: Read-only"* || $output == *"/opt/batchai/new': Read-only"* ]]
    [[ $output == *"libmpi_bridge.so.0: Read-only"* ]]
}

stands_still() { batchai job stacks hang | grep -F 'rank 0 on h1: at hang.py:5 in stand_still()'; }

# Breaks when a rank in a container cannot be asked, or the packages of the image lose their place.
@test "a rank in a container says where it is" {
    as_user bash -c "cat > $share/hang.py" << PYTHON
import os, time
def stand_still():
    with open("$share/stands", "w") as file:
        file.write(os.environ["PYTHONPATH"])
    time.sleep(3000)
stand_still()
PYTHON
    jq -n --arg image "$share/python.sqsh" --arg share "$share" '{properties: {nodeCount: 1,
        stdOutErrPathPrefix: ($share + "/logs"), containerSettings: {imageSourceRegistry: {image: $image}},
        environmentVariables: [{name: "PYTHONPATH", value: "/mine"}],
        customMpiSettings: {commandLine: ("exec python3 " + $share + "/hang.py")}}}' |
        as_user bash -c "cat > $share/hang.json"
    batchai job create --name hang --config-file "$share/hang.json" --output none
    wait_until 60 stands_still
    # The names are those of the image's own files, which the host may have otherwise or not at all.
    run -0 batchai job stacks hang --native
    echo "$output"
    [[ $output == *" in Py_BytesMain"* || $output == *" in Py_RunMain"* ]]
    run -0 as_user cat "$share/stands"
    [[ $output == /opt/batchai/lib/batchai/python/mpi_bridge/hook:/mine:/opt/batchai/lib/batchai/python ]]
}

# Breaks when only Python finds the library, srun's tasks do not get it, or the container closes the
# socket of Slurm's PMI-2.
@test "a C program finds the library, in a step without batchai run" {
    cat > "$BATS_TEST_TMPDIR/sum.c" << 'C'
#include <mpi_bridge.h>
#include <stdio.h>
int main(void) {
    double value = 1;
    if (mpib_init() != MPIB_OK ||
        mpib_allreduce(&value, &value, 1, MPIB_FLOAT64, MPIB_SUM) != MPIB_OK) {
        fprintf(stderr, "%s\n", mpib_last_error());
        return 1;
    }
    printf("rank %d: sum %g\n", mpib_rank(), value);
    return mpib_finalize() != MPIB_OK;
}
C
    cc -Wall -Werror -o "$BATS_TEST_TMPDIR/sum" "$BATS_TEST_TMPDIR/sum.c" -I"$PREFIX/include" \
        -L"$PREFIX/lib" -lmpi_bridge -Wl,-rpath,/opt/batchai/lib \
        -Wl,--unresolved-symbols=ignore-in-shared-libs
    put "$BATS_TEST_TMPDIR/sum" "$share/sum"
    jq -n --arg image "$share/python.sqsh" '{properties: {nodeCount: 2, stdOutErrPathPrefix: "/tmp",
        containerSettings: {imageSourceRegistry: {image: $image}},
        customToolkitSettings: {commandLine: "true"}}}' | as_user bash -c "cat > $share/step.json"
    local mpi
    for mpi in $(printf '%s\n' "$(slurm_mpi)" pmi2 | uniq); do
        run as_user srun -N2 "--mpi=$mpi" --job-json="$share/step.json" "$share/sum"
        echo "$output"
        [[ $status -eq 0 ]]
        lines_are 2 "$(grep "rank [01]: sum 2" <<< "$output")"
    done
}

# pmix_version: what this machine's libpmix says of itself, such as 4.2.2.
pmix_version() {
    "$PYTHON" -c 'import ctypes
library = ctypes.CDLL("libpmix.so.2")
library.PMIx_Get_version.restype = ctypes.c_char_p
print(library.PMIx_Get_version().decode().split()[1])'
}

# pmix_into ROOT: this machine's libpmix where Debian has it, with all that it loads.
pmix_into() {
    local library
    mkdir -p "$1/usr/lib/x86_64-linux-gnu"
    cp -a /usr/lib/x86_64-linux-gnu/pmix2 "$1/usr/lib/x86_64-linux-gnu/"
    ln -s pmix2/lib/libpmix.so.2 "$1/usr/lib/x86_64-linux-gnu/libpmix.so.2"
    while read -r library; do
        [[ -e $1$library ]] || install -D "$library" "$1$library"
    done < <(ldd /usr/lib/x86_64-linux-gnu/libpmix.so.2 | grep -o '=> /[^ ]*' | cut -c4-)
}

# Breaks when an image's newer PMIx library is not used, when the node's libraries get into its company,
# or when an image that has the same one as the node makes a difference.
@test "an image's own PMIx library is used if it is newer, by the check too" {
    needs_pmix
    local root=$BATS_FILE_TMPDIR/root library
    pmix_into "$root"
    pack "$root" "$share/same.sqsh"
    library=$(readlink -f "$root/usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so.2")
    # The same library, but for what it says of its version: 4.9 for 4.2.
    local own newer
    own=$(pmix_version | grep -o '^[0-9]*\.[0-9]')
    newer=${own%.*}.9
    sed -i "s/OpenPMIx ${own/./\\.}\./OpenPMIx $newer./" "$library"
    grep -q "OpenPMIx ${newer/./\\.}\." "$library"
    pack "$root" "$share/newer.sqsh"
    run job newer newer.sqsh "ls /opt/batchai/lib/mpi_bridge/pmix; python3 $share/sum.py"
    [[ $status -eq 0 ]]
    run said_by newer
    echo "$output"
    [[ $output == *"rank 1 of 2: sum 3"* && $output == *"PMIx wires 2 ranks in the container"* ]]
    [[ $output == *"with the image's own PMIx library $newer."*", which is newer than the node's $own."* ]]
    [[ $output == *$'\n/usr/lib/x86_64-linux-gnu/pmix2/lib/'"${library##*/}"$'\n'* ]]
    [[ $output == *$'\n/lib/x86_64-linux-gnu/libevent_core-2.1.so.7\n/opt/batchai/lib/mpi_bridge/libucp.so.0\n'* ]]
    [[ $output != *$'\nlibpmix.so.2\n'* ]]
    run job same same.sqsh "python3 $share/sum.py"
    [[ $status -eq 0 ]]
    run said_by same
    echo "$output"
    [[ $output == *"with the node's PMIx library $own."*"; the image's own ("*"is not newer"* ]]
    [[ $output == *$'\n/opt/batchai/lib/mpi_bridge/pmix/libpmix.so.2\n'* ]]
}

# libpmix_of NAME VERSION [STATUS]: an image whose libpmix has this version, and whose PMIx_Init fails
# with the status; without one it lacks all functions.
libpmix_of() {
    local root=$BATS_TEST_TMPDIR/$1 function
    make_root "$root"
    install -D /lib/x86_64-linux-gnu/libm.so.6 "$root/lib/x86_64-linux-gnu/libm.so.6"
    mkdir -p "$root/usr/lib"
    {
        echo "const char* PMIx_Get_version(void) { return \"OpenPMIx $2 (PMIx Standard: 9)\"; }"
        if [[ -n ${3:-} ]]; then
            echo "int PMIx_Init(void) { return $3; }"
            echo 'const char* PMIx_Error_string(int status) { (void)status; return "UNREACHABLE"; }'
            for function in $(nm -D --undefined-only "$PREFIX/libexec/batchai/mpi_bridge_wireup" |
                grep -o 'PMIx_.*' | grep -v -E 'PMIx_(Init|Get_version|Error_string)$'); do
                echo "int $function(void) { return -1; }"
            done
        fi
    } > "$BATS_TEST_TMPDIR/pmix.c"
    cc -shared -fPIC -Wl,-soname,libpmix.so.2 -o "$root/usr/lib/libpmix.so.2" "$BATS_TEST_TMPDIR/pmix.c"
    pack "$root" "$share/$1.sqsh"
}

# Breaks when ranks hang or fail without the reason, or the check uses a library that ranks do not.
@test "a PMIx library of the image that does not work is named, with both versions and what to do" {
    needs_pmix
    libpmix_of strange 9.9.9 -25
    libpmix_of poor 9.9.8
    libpmix_of older 3.0.0
    run job strange strange.sqsh 'echo ran'
    [[ $status -ne 0 ]]
    run failure_of strange
    echo "$output"
    local server
    server=$(pmix_version)
    [[ $output == *WireUpFailed* && $output == *"client library 9.9.9, server $server"* ]]
    [[ $output == *"/usr/lib/libpmix.so.2"* && $output == *"give the image a PMIx library of version"* ]]
    run -127 job poor poor.sqsh 'echo ran'
    run failure_of poor
    echo "$output"
    [[ $output == *WireUpFailed* && $output == *"the server is PMIx $server"* ]]
    [[ $output == *"PMIx_"* && $output == *"give the image a PMIx library"* ]]
    [[ $output == *"so that the node's $server is used"* ]]
    # One that is older than the node's does no harm, whatever it lacks.
    job older older.sqsh 'echo ran'
    run said_by strange
    [[ $output != *$'\nran'* ]]
}

# Breaks when an image that is older than the node fails for what it never asked for, or nobody says
# that it gets nothing.
@test "an image with an old C library runs as it is, with a notice" {
    local root=$BATS_TEST_TMPDIR/root
    make_root "$root"
    # Only what is linked statically works there.
    rm -rf "${root:?}"/{lib,lib64,usr/lib,usr/bin/bash,bin/bash}
    mkdir "$root/lib64"
    echo 'const char banner[] = "GNU C Library (test) stable release version 2.17, by nobody";' \
        > "$BATS_TEST_TMPDIR/libc.c"
    cc -shared -fPIC -nostdlib -Wl,-soname,libc.so.6 -o "$root/lib64/libc.so.6" "$BATS_TEST_TMPDIR/libc.c"
    pack "$root" "$share/old.sqsh"
    run job old old.sqsh 'echo "[$PYTHONPATH]"; ls /opt/batchai'
    [[ $status -eq 0 ]]
    run said_by old
    echo "$output"
    [[ $output == *$'[]\n'*not-injected* ]]
    [[ $output == *"not brought into the container: the image has glibc 2.17, and mpi_bridge of the node needs 2."*" or newer"* ]]
    [[ $output == *"the wire-up check runs on the nodes, not in the container"*"glibc 2.17"* ]]
    [[ $output == *"$(pmi_words) wires 2 ranks"* ]]
}

# Breaks when a program that was made for the image's horovod gets another one, or cannot ask for ours.
@test "an image keeps the horovod that it has, and says so" {
    local root=$BATS_FILE_TMPDIR/root own
    own=$(find "$root/usr/lib" -maxdepth 1 -name 'python3.*' -printf '/usr/lib/%f\n' | head -n 1)/horovod
    mkdir "$root$own"
    echo '__version__ = "0.21.3"' > "$root$own/__init__.py"
    pack "$root" "$share/own.sqsh"
    rm -r "${root:?}$own"
    local print="python3 -c 'import horovod; print(horovod.__version__)'"
    run job own own.sqsh "$print"
    [[ $status -eq 0 ]]
    run said_by own
    echo "$output"
    [[ $output == *"the image's own horovod is used, $own/__init__.py; BATCHAI_INJECT=1"* ]]
    [[ $(batchai job logs own --stdout 2> /dev/null | grep -c "^0.21.3$") -eq 2 ]]
    run job ours own.sqsh "$print" '.properties.environmentVariables = [{name: "BATCHAI_INJECT", value: "1"}]'
    [[ $status -eq 0 ]]
    run said_by ours
    echo "$output"
    [[ $output == *mpibridge* && $output != *"own horovod is used"* ]]
}

# Breaks when a job or a site cannot have its images as they are.
@test "a job, or the site, can do without" {
    local none='.properties.environmentVariables = [{name: "BATCHAI_INJECT", value: "0"}]'
    run job without python.sqsh 'ls -A /opt/batchai; echo "[$PYTHONPATH]"' "$none"
    [[ $status -eq 0 ]]
    run said_by without
    echo "$output"
    [[ $output == *"the job has BATCHAI_INJECT=0"* && $output == *$'not-injected\n[]'* ]]
    write_site 'inject_mpi_bridge = false'
    run job never python.sqsh 'echo "[$PYTHONPATH]"; cat /opt/batchai/not-injected'
    [[ $status -eq 0 ]]
    run said_by never
    [[ $output == *$'[]\ninject_mpi_bridge of the site'* ]]
}
